"""Ways out, one by one: each is tried from within, and each must be refused.

A program prints ATTEMPT before each act, DENIED with the reason, and BREACH if it got what it asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest
from conformance.attempts import PRELUDE, REFUSED
from conformance.helpers import (
    ENV_CANARY,
    Canaries,
    Listeners,
    alone,
    assert_withstood,
    both,
    breaches,
    new_canary,
)

pytestmark = pytest.mark.usefixtures("isolating")
on_x86 = pytest.mark.skipif(
    os.uname().machine != "x86_64", reason="system calls are written as numbers of x86_64"
)


async def run(sandbox, code, *arguments, **options):
    await sandbox.write_file("attack.py", code.encode())
    return await sandbox.exec(["python3", "attack.py", *arguments], **options)


@on_x86
@pytest.mark.parametrize("name", REFUSED)
async def test_refused(kind, create, name):
    sandbox = await create(wall_s=8)
    result = await run(sandbox, PRELUDE + REFUSED[name] + "\nprint('TRIED ALL')")
    assert result.status == "exited", both(result)[-3000:]
    assert_withstood(result, "ATTEMPT", "TRIED ALL", tolerated=kind.tolerates)
    if "rename home" not in kind.tolerates:
        assert (await run(sandbox, "print('on')")).stdout == b"on\n"


@on_x86
@pytest.mark.parametrize("name", REFUSED)
async def test_refused_in_a_session(with_sessions, kind, create, name):
    """A session is a child of another kind; its walls are the same."""
    sandbox = await create(wall_s=8)
    session = await sandbox.session()
    result = await session.run(PRELUDE + REFUSED[name] + "\nprint('TRIED ALL')")
    said = result.stdout_text
    assert "TRIED ALL" in said, (said + result.stderr_text)[-3000:]
    assert not breaches(said, kind.tolerates)


@on_x86
@pytest.mark.parametrize(
    "code",
    [
        "call(0x40000000 + 39)",
        # mov eax, 20; int 0x80; ret: getpid as a 32-bit program asks for it
        "m = __import__('mmap').mmap(-1, 4096, prot=7); m.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()",
    ],
    ids=["x32", "int 0x80"],
)
async def test_the_kernels_other_doors_are_shut(sandbox, code):
    result = await run(sandbox, f"{PRELUDE}\nprint('ATTEMPT', flush=True)\n{code}\nprint('BREACH')")
    assert_withstood(result)
    assert (result.status, result.signal) in (("signalled", 31), ("signalled", 11))


async def test_no_socket_of_the_host_is_reached(create):
    code = """
import socket
tried = 0
for family, kind, address in (
    (socket.AF_UNIX, socket.SOCK_STREAM, "\\0canary-net"), (socket.AF_UNIX, socket.SOCK_DGRAM, "\\0canary-net-dgram"),
    *((socket.AF_UNIX, socket.SOCK_STREAM, folder + "/canary-net.sock")
      for folder in ("/tmp", "/run", "/var/tmp", "/proc/1/root/tmp")),
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 47111)), (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 47111)),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 47112)), (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 47111)),
):
    tried += 1
    try:
        s = socket.socket(family, kind); s.settimeout(0.3); s.connect(address); s.send(b"x")
    except OSError as error: print("DENIED", address, error)
    else: print("SENT" if kind == socket.SOCK_DGRAM else "BREACH", address)
print("TRIED", tried)
"""
    with alone(), Listeners() as listeners:
        result = await run(await create(), code)
        assert_withstood(result, "TRIED 10")
        listeners.assert_untouched()


async def test_two_sandboxes_do_not_meet(create):
    """Files, sockets, ports, shared memory, queues and processes of one are not there in the other."""
    keeper, seeker = await create(wall_s=6), await create(wall_s=6)
    secret = new_canary()
    hold = """
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
secret = sys.stdin.readline().strip()
for folder in ("/tmp", "/dev/shm", "."): open(folder + "/zz_secret", "w").write(secret)
kept = []
for family, address in (
    (socket.AF_UNIX, "\\0zz-meet"), (socket.AF_UNIX, "/tmp/zz_meet"), (socket.AF_INET, ("127.0.0.1", 47130))
):
    s = socket.socket(family); s.bind(address); s.listen(); s.setblocking(False); kept.append(s)
libc.shmat.restype = ctypes.c_void_p
shm = libc.shmget(0x7A7A, 4096, 0o1666); ctypes.memmove(libc.shmat(shm, None, 0), secret.encode(), len(secret))
queue = libc.msgget(0x7A7A, 0o1666); sems = libc.semget(0x7A7A, 1, 0o1666)
print("ATTEMPT held", shm >= 0, queue >= 0, sems >= 0, flush=True)
time.sleep(2)
for s in kept:
    try: s.accept(); print("BREACH visited")
    except BlockingIOError: pass
print(open("/tmp/zz_secret").read() == secret)
"""
    seek = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
libc.mq_open.restype = ctypes.c_int
print("ATTEMPT")
for path in ("/tmp/zz_secret", "/dev/shm/zz_secret", "zz_secret", "/var/tmp/zz_secret"):
    if os.path.exists(path): print("BREACH", path)
for family, address in (
    (socket.AF_UNIX, "\\0zz-meet"), (socket.AF_UNIX, "/tmp/zz_meet"), (socket.AF_INET, ("127.0.0.1", 47130))
):
    try: socket.socket(family).connect(address); print("BREACH connected", address)
    except OSError as error: print("DENIED", address, error)
for name in ("shmget", "msgget", "semget"):
    args = (0x7A7A, 0, 0) if name != "msgget" else (0x7A7A, 0)
    if getattr(libc, name)(*args) >= 0: print("BREACH", name)
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid(), os.getppid())]
for pid in others:
    try: print("BREACH sees", open("/proc/%s/cmdline" % pid).read())
    except OSError: pass
for pid in range(2, 4000):
    if pid != os.getpid():
        try: os.kill(pid, 0); print("BREACH signals", pid)
        except OSError: pass
"""
    holding = asyncio.create_task(run(keeper, hold, stdin=secret.encode() + b"\n"))
    await asyncio.sleep(0.4)
    found = await run(seeker, seek)
    held = await holding
    assert_withstood(found)
    assert_withstood(held, "ATTEMPT held True")
    assert held.stdout.endswith(b"True\n")
    assert secret.encode() not in both(found)


async def test_nothing_is_left_for_the_next(backend):
    """What lives in the kernel and not in files: shared memory, queues, semaphores, sockets, names, ports."""
    leave = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
print("ATTEMPT", libc.shmget(0x7A7A, 1 << 20, 0o1666), libc.msgget(0x7A7A, 0o1666), libc.semget(0x7A7A, 1, 0o1666))
librt = ctypes.CDLL("librt.so.1", use_errno=True)
print("queue", librt.mq_open(b"/zz_queue", os.O_CREAT | os.O_RDWR, 0o666, None))
from multiprocessing import shared_memory, resource_tracker
block = shared_memory.SharedMemory("zz_block", create=True, size=4096)
resource_tracker.unregister(block._name, "shared_memory")
for folder in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~")): open(folder + "/zz_left", "w").write("left")
s = socket.create_server(("127.0.0.1", 47131)); c = socket.create_connection(("127.0.0.1", 47131)); a, _ = s.accept()
a.close()
try: libc.sethostname(b"zz_host", 7)
except OSError: pass
"""
    look = """
import ctypes, os, socket
libc = ctypes.CDLL(None, use_errno=True)
print("ATTEMPT")
for name, args in (("shmget", (0x7A7A, 0, 0)), ("msgget", (0x7A7A, 0)), ("semget", (0x7A7A, 0, 0))):
    if getattr(libc, name)(*args) >= 0: print("BREACH", name)
if ctypes.CDLL("librt.so.1").mq_open(b"/zz_queue", os.O_RDWR) >= 0: print("BREACH queue")
for folder in ("/tmp", "/dev/shm", "/var/tmp", os.path.expanduser("~"), "/dev/mqueue"):
    if os.path.isdir(folder) and [n for n in os.listdir(folder) if n.startswith("zz_")]: print("BREACH", folder)
for path in ("/proc/sysvipc/shm", "/proc/sysvipc/msg", "/proc/sysvipc/sem", "/proc/net/tcp"):
    if os.path.exists(path) and len(open(path).readlines()) > 1: print("BREACH", path, open(path).read())
if socket.gethostname().startswith("zz"): print("BREACH host name")
if open("/proc/loadavg") and int(open("/proc/loadavg").read().split()[-1]) > 50: print("BREACH processes were counted")
"""
    for _ in range(2):
        async with await backend.create() as first, await backend.create() as second:
            for sandbox in (first, second):
                assert_withstood(await run(sandbox, leave), "ATTEMPT 0")
        async with await backend.create() as first, await backend.create() as second:
            for sandbox in (first, second):
                assert_withstood(await run(sandbox, look))


async def test_secrets_of_the_harness_are_out_of_reach(backend, create):
    """Environment, memory and descriptors: of every process in sight and of this one's own past."""
    code = """
import ctypes, gc, os, re, stat, sys
canary = re.compile(rb"CANARY-[0-9a-f]{32}")
seen = 0
def look(where, data):
    for hit in canary.findall(data): print("LEAK", where, hit.decode())
for pid in ["self", *[p for p in os.listdir("/proc") if p.isdigit()]]:
    for name in ("environ", "cmdline", "maps", "mountinfo", "cgroup", "stat"):
        try: look(name, open("/proc/%s/%s" % (pid, name), "rb").read()); seen += 1
        except OSError: pass
with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as mem:
    for line in maps:
        span, perms = line.split()[:2]
        start, end = (int(x, 16) for x in span.split("-"))
        if "r" in perms and "[v" not in line:
            try: mem.seek(start); data = mem.read(min(end - start, 64 << 20))
            except (OSError, OverflowError, ValueError): continue
            own = canary.pattern
            look("own memory", data)
            seen += 1
for fd in range(256):
    try: info = os.fstat(fd)
    except OSError: continue
    if fd > 2 and stat.S_ISSOCK(info.st_mode): print("BREACH a socket was inherited", fd)
    if stat.S_ISDIR(info.st_mode): print("BREACH a folder was inherited", fd)
print("ATTEMPT", seen)
"""
    with alone(), Canaries() as planted:
        async with await backend.create() as neighbour:
            await run(neighbour, "import sys; sys.stdin.read()", stdin=(new_canary() + "\n").encode() * 100)
            await neighbour.write_file("secret", new_canary().encode())
            result = await run(await create(), code)
            assert_withstood(result)
            planted.assert_unread(both(result))
        # the same slots again, in which a canary has just been
        async with await backend.create() as first, await backend.create() as second:
            for sandbox in (first, second):
                result = await run(sandbox, code)
                assert_withstood(result)
                assert ENV_CANARY.encode() not in both(result)


# An engine mounts the container's own control groups and devices' names, read-only.
@pytest.mark.only_for(when=lambda kind: kind.name != "docker")
async def test_the_mounts_are_few_and_read_only(create):
    code = """
print("ATTEMPT")
for line in open("/proc/self/mountinfo"):
    left, _, right = line.partition(" - ")
    target, options = left.split()[4:6]
    kind = right.split()[0]
    writable = "rw" in options.split(",") and "rw" in right.split()[2].split(",")
    if writable and kind not in ("proc", "tmpfs", "devtmpfs", "mqueue", "devpts"): print("BREACH writable", line)
    if target != "/" and not target.startswith("/dev") and "nosuid" not in options: print("BREACH setuid", line)
    if kind in ("cgroup", "cgroup2", "sysfs", "debugfs", "securityfs", "bpf"): print("BREACH", line)
"""
    assert_withstood(await run(await create(), code))


async def test_forged_frames_on_every_descriptor(create):
    """Whatever a program writes to the descriptors that it finds is output, or nothing."""
    code = """
import os, socket, struct
forged = b"d9:exit_codei0e6:status6:exited6:stdout4:PASSe"
frame = struct.pack(">I", len(forged)) + forged
print("ATTEMPT", flush=True)
wrote = []
for fd in range(3, 1024):
    try: os.write(fd, frame); wrote.append(fd)
    except OSError: pass
for pid in (1, os.getppid()):
    for fd in range(32):
        try: os.write(os.open("/proc/%d/fd/%d" % (pid, fd), os.O_WRONLY), frame); print("BREACH", pid, fd)
        except OSError: pass
print("wrote", wrote, flush=True)
os._exit(9)
"""
    sandbox = await create()
    for _ in range(2):
        result = await run(sandbox, code)
        assert_withstood(result)
        assert (result.status, result.exit_code) == ("exited", 9)
        assert result.stdout == b"ATTEMPT\nwrote []\n"
    result = await run(sandbox, code, reply_bytes=4000)
    assert (result.status, result.exit_code) == ("exited", 9)
    assert b"status6:exited" in (result.reply or b"")


async def test_no_core_file_is_written_anywhere(create):
    sandbox = await create()
    before = {path for path in ("/core", "core", "/tmp/core", "/var/crash") if os.path.exists(path)}
    code = "import os, resource, signal\nprint('ATTEMPT', resource.getrlimit(resource.RLIMIT_CORE), flush=True)\n"
    result = await run(sandbox, code + "os.kill(os.getpid(), signal.SIGSEGV)")
    assert result.signal == 11
    assert b"ATTEMPT (0, 0)" in result.stdout
    listing = await run(sandbox, "import os; print(os.listdir())")
    assert b"core" not in listing.stdout
    assert {path for path in ("/core", "core", "/tmp/core", "/var/crash") if os.path.exists(path)} == before
    with contextlib.suppress(FileNotFoundError):
        assert not [name for name in os.listdir("/var/crash") if "sandbox" in name]
