"""Memory, processes, disk and descriptors are bounded, by whatever way a program takes them, and the host lives."""

from __future__ import annotations

import pytest
from conformance.helpers import Usage, assert_no_survivors, assert_withstood, both, descendants, within

HOST_MIB = 512
"""What a sandbox of 128 MiB may cost the host, with what others use meanwhile."""

MEMORY = {
    "heap": """
blocks = []
while True: blocks.append(bytearray(b"x" * (8 << 20)))
""",
    "many processes": """
import os, time
for _ in range(16):
    if os.fork() == 0:
        block = bytearray(b"x" * (48 << 20)); time.sleep(20); os._exit(0)
time.sleep(2)
os.write(1, b"waiting\\n")
while True: os.wait()
""",
    "anonymous files": """
import os
for _ in range(8):
    fd = os.memfd_create("bomb")
    for _ in range(16): os.write(fd, b"x" * (8 << 20))
""",
    "shared mapping": """
import mmap
blocks = []
for _ in range(64):
    block = mmap.mmap(-1, 16 << 20); block[:] = b"x" * (16 << 20); blocks.append(block)
""",
    "System V shared memory": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True); libc.shmat.restype = ctypes.c_void_p
for n in range(64):
    shm = libc.shmget(0, 16 << 20, 0o1600)
    if shm < 0: raise OSError("shmget refused")
    at = libc.shmat(shm, None, 0); ctypes.memset(at, 1, 16 << 20); libc.shmdt(ctypes.c_void_p(at))
""",
    "pipes": """
import fcntl, os
count = 0
for _ in range(100000):
    r, w = os.pipe(); os.set_blocking(w, False)
    try: fcntl.fcntl(w, 1031, 1 << 20)
    except OSError: pass
    try:
        while True: count += os.write(w, b"x" * 65536)
    except BlockingIOError: pass
    if os.fork() == 0:
        import time; time.sleep(30); os._exit(0)
    os.close(r); os.close(w)
    if count > 700 << 20: break
""",
    "socket buffers": """
import os, socket, time
count = 0
for _ in range(100000):
    a, b = socket.socketpair(); a.setblocking(False); a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
    try:
        while True: count += a.send(b"x" * 65536)
    except BlockingIOError: pass
    if os.fork() == 0: time.sleep(30); os._exit(0)
    a.close(); b.close()
    if count > 700 << 20: break
""",
    "descriptors in flight": """
import array, os, socket
count = 0
for _ in range(200):
    a, b = socket.socketpair(); a.setblocking(False)
    fd = os.memfd_create("x"); os.write(fd, b"x" * (4 << 20)); count += 4
    a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd, b.fileno()]))])
    os.close(fd); a.close(); b.close()
    if count > 700: break
""",
    "page tables": """
import mmap
for _ in range(2000):
    m = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 2 << 20): m[at] = 1
    globals()["m%d" % _] = m
""",
    "the stack": """
import resource, sys, threading
resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY,) * 2) if resource.getrlimit(3)[1] < 0 else None
sys.setrecursionlimit(10**9); threading.stack_size(1 << 30)
def deeper(n): return [deeper(n + 1)]
t = threading.Thread(target=deeper, args=(0,)); t.start(); t.join()
""",
    "files on its own disk": """
import os
for folder in (".", "/tmp", "/dev/shm", "/var/tmp"):
    for n in range(64):
        try: open("%s/bomb%d" % (folder, n), "wb").write(b"x" * (4 << 20))
        except OSError as error: print("DENIED", folder, error, flush=True); break
    else: print("BREACH", folder)
""",
}

MANY = {
    "threads": """
import threading, time
made = 0
try:
    for _ in range(10000):
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start(); made += 1
except RuntimeError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "processes": """
import os, time
made = 0
try:
    for _ in range(10000):
        if os.fork() == 0: time.sleep(20); os._exit(0)
        made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "descriptors": """
import os
made = 0
try:
    while made < 100000: os.dup(0); made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "watches": """
import ctypes, os, select
libc = ctypes.CDLL(None, use_errno=True)
made = 0
try:
    for n in range(100000):
        if libc.inotify_init() < 0: raise OSError(ctypes.get_errno(), "inotify")
        made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
kept = []
for fd in range(3, 200):
    try: os.close(fd)
    except OSError: pass
try:
    for n in range(100000): kept.append(select.epoll())
except OSError as error: print("DENIED", len(kept), error, flush=True)
else: print("BREACH", len(kept))
""",
    "files": """
import os
made = 0
try:
    for folder in (".", "/tmp", "/dev/shm"):
        for n in range(50000): open("%s/i%d" % (folder, n), "w").close(); made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "links": """
import os
made = 0
try:
    for n in range(50000): os.symlink("x" * 200, "l%d" % n); made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "folders in folders": """
import os
made = 0
try:
    for n in range(50000): os.mkdir("d"); os.chdir("d"); made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "names of one file": """
import os
open("one", "w").close()
made = 0
try:
    for n in range(100000): os.link("one", "h%d" % n); made += 1
except OSError as error: print("DENIED", made, error, flush=True)
else: print("BREACH", made)
""",
    "messages": """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
made = 0
text = ctypes.create_string_buffer((1).to_bytes(8, "little") + b"x" * 8000)
for n in range(40000):
    queue = libc.msgget(0, 0o1600)
    if queue < 0: print("DENIED", made, "queues"); break
    while libc.msgsnd(queue, text, 8000, 0o4000) == 0: made += 1
    if made * 8000 > 1 << 30: print("BREACH", made); break
print("DENIED", made, "messages")
""",
    "signals": """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
sent = 0
while libc.sigqueue(os.getpid(), 34, ctypes.c_void_p(0)) == 0 and sent < 1000000: sent += 1
print("DENIED" if sent < 1000000 else "BREACH", sent)
""",
    "timers": """
import ctypes
librt = ctypes.CDLL("librt.so.1", use_errno=True)
made, timer = 0, ctypes.c_void_p()
while librt.timer_create(1, None, ctypes.byref(timer)) == 0 and made < 1000000: made += 1
print("DENIED" if made < 1000000 else "BREACH", made)
""",
}


DISK = ("files", "links", "folders in folders", "names of one file")


async def run(sandbox, code, **options):
    await sandbox.write_file("attack.py", code.encode())
    return await sandbox.exec(["python3", "attack.py"], **options)


async def assert_bounded(backend, create, code, **limits):
    """Run a bomb; the host hardly grows, nothing is left, and the next sandbox is as good as ever."""
    for last in (False, False, True):  # the host's memory is others' too
        with Usage() as usage, within(15):
            sandbox = await create(**limits)
            await sandbox.write_file("here", b"")
            before = descendants()
            result = await run(sandbox, "print('ATTEMPT', flush=True)\n" + code)
            assert_no_survivors(before)
            await sandbox.close()
            growth = usage.growth_mib()
        if growth <= HOST_MIB or last:
            break
    assert growth <= HOST_MIB
    async with await backend.create() as other:
        assert (await other.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"
    return result


async def claims(backend):
    try:
        return (await backend.capabilities()).enforced
    except ImportError:  # the probe is not part of this tree
        return {"hard_memory", "hard_processes", "hard_disk"}


@pytest.mark.parametrize("name", MEMORY)
async def test_memory_bombs(isolating, countable, backend, create, name):
    if "hard_memory" not in await claims(backend):
        pytest.skip("memory is bounded for each process alone here, and the backend says so")
    result = await assert_bounded(
        backend,
        create,
        MEMORY[name],
        memory_mib=128,
        disk_mib=64,
        file_mib=64,
        processes=32,
        wall_s=5,
        cpu_s=5,
    )
    if result.stdout or result.status != "oom":  # where the supervisor itself was ended, output is lost
        assert_withstood(result)
    assert result.status in ("oom", "exited", "signalled", "timeout")
    assert result.peak_memory_mib < 128 + 64
    if name in ("heap", "anonymous files", "shared mapping", "System V shared memory"):
        assert result.status == "oom" or b"Error" in result.stderr, both(result)[-1000:]


async def test_out_of_memory_says_so_and_keeps_the_output(isolating, backend, create):
    if "hard_memory" not in await claims(backend):
        pytest.skip("memory is bounded for each process alone here, and the backend says so")
    sandbox = await create(memory_mib=96)
    result = await run(sandbox, "print('so far', flush=True)\nblock = bytearray(b'x' * (400 << 20))")
    assert (result.status, result.exit_code, result.signal) == ("oom", None, None)
    assert result.stdout == b"so far\n"
    assert (await run(sandbox, "print('on')")).stdout == b"on\n"


async def test_a_child_that_is_killed_for_memory_is_the_parents_affair(isolating, backend, create):
    if "hard_memory" not in await claims(backend):
        pytest.skip("memory is bounded for each process alone here, and the backend says so")
    sandbox = await create(memory_mib=96)
    code = (
        "import os\npid = os.fork()\nif pid == 0:\n    b = bytearray(b'x' * (400 << 20)); os._exit(0)\n"
        "print(os.WTERMSIG(os.waitpid(pid, 0)[1]))"
    )
    result = await run(sandbox, code)
    assert (result.status, result.stdout) == ("exited", b"9\n")


async def test_memory_that_is_allowed_can_be_had(create):
    sandbox = await create(memory_mib=256)
    result = await run(sandbox, "block = bytearray(b'x' * (90 << 20)); print(len(block))")
    assert result.stdout == b"%d\n" % (90 << 20)


@pytest.mark.parametrize("name", MANY)
async def test_counts_are_bounded(isolating, countable, kind, backend, create, name):
    result = await assert_bounded(
        backend,
        create,
        MANY[name],
        memory_mib=256,
        processes=48,
        inodes=4000,
        disk_mib=32,
        open_files=128,
        wall_s=6,
    )
    if name == "messages" and result.status == "oom":  # queues count as memory
        assert_withstood(result)
        return
    if (
        name in DISK and not kind.counts_files
    ):  # they count as the memory that they take, and that limit holds
        assert b"ATTEMPT" in result.stdout
        assert 20 < result.peak_memory_mib < 256 + 64
        return
    assert_withstood(result, "ATTEMPT", "DENIED")
    made = int(result.stdout_text.split("DENIED ")[1].split()[0])
    most = {"threads": 48, "processes": 48, "descriptors": 128, "watches": 128, "files": 4100, "links": 4100,
            "folders in folders": 4100}  # fmt: skip
    assert made <= most.get(name, 10**6)


async def test_processes_that_are_allowed_can_be_had(create):
    sandbox = await create(processes=32)
    code = (
        "import os, time\nfor n in range(20):\n    if os.fork() == 0: time.sleep(0.2); os._exit(0)\n"
        "while True:\n    try: os.wait()\n    except ChildProcessError: break\nprint('all', n + 1)"
    )
    assert (await run(sandbox, code)).stdout == b"all 20\n"


async def test_the_disk_is_bounded_and_comes_back(isolating, create):
    sandbox = await create(disk_mib=16, file_mib=64)
    fill = """
import errno, os
total = 0
try:
    with open("big", "wb", buffering=0) as file:
        while total < 200 << 20: total += file.write(b"x" * (1 << 20))
except OSError as error: print(errno.errorcode[error.errno], total >> 20)
os.unlink("big")
"""
    for _ in range(2):
        result = await run(sandbox, fill)
        assert result.stdout_text.split()[0] == "ENOSPC", both(result)
        assert 14 <= int(result.stdout_text.split()[1]) <= 16


async def test_the_size_of_a_file_is_bounded(create):
    sandbox = await create(file_mib=1)
    code = """
import errno
try:
    with open("big", "wb", buffering=0) as file:
        file.write(b"x" * (1 << 20)); file.write(b"x")
except OSError as error: print(errno.errorcode[error.errno])
try: open("sparse", "wb").truncate(1 << 40)
except OSError as error: print(errno.errorcode[error.errno])
"""
    assert (await run(sandbox, code)).stdout == b"EFBIG\nEFBIG\n"


async def test_a_sparse_file_is_not_read_into_memory(isolating, create):
    from turngym.sandboxes.errors import FileTooLarge

    sandbox = await create(file_mib=1 << 18)
    result = await run(sandbox, "open('sparse', 'wb').truncate(1 << 36); print('ATTEMPT')")
    assert_withstood(result)
    with within(3):
        with pytest.raises(FileTooLarge):
            await sandbox.read_file("sparse")
        with pytest.raises(FileTooLarge):
            await sandbox.pack()


async def test_a_full_disk_does_not_stop_the_supervisor(isolating, create):
    sandbox = await create(disk_mib=4, inodes=64)
    from turngym.sandboxes.errors import FileError

    fill = (
        "try:\n    for n in range(100): open('f%d' % n, 'wb').write(b'x' * (1 << 20))\n"
        "except OSError: print('ATTEMPT')"
    )
    assert_withstood(await run(sandbox, fill))
    with pytest.raises(FileError):
        await sandbox.write_file("new", b"x" * (1 << 20))
    assert (await sandbox.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"
    await sandbox.exec(["sh", "-c", "rm -f f*"])
    await sandbox.write_file("new", b"x")


async def test_deep_and_wide_trees_neither_break_the_file_interface_nor_the_end(isolating, create):
    from turngym.sandboxes.errors import FileError

    sandbox = await create(inodes=30000, wall_s=20, cpu_s=20)
    code = """
import os
for n in range(10000): os.symlink("/root/canary.txt", "l%d" % n)
home = os.getcwd()
for n in range(2000): os.mkdir("d"); os.chdir("d")
os.chdir(home)
for n in range(1500): os.mkdir("w%d" % n)
print("ATTEMPT")
"""
    assert_withstood(await run(sandbox, code))
    with within(5), pytest.raises(FileError):
        await sandbox.pack()
    with pytest.raises(FileError):
        await sandbox.read_file("/".join("d" * 1500))
    with pytest.raises(FileError):
        await sandbox.write_file("/".join("d" * 500) + "/x", b"x")
    with within(5):
        await sandbox.close()
