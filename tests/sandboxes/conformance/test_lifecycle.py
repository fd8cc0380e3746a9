"""Beginning, end and interruption: whatever is broken off, the host is as it was and the next sandbox is fine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conformance.helpers import assert_no_survivors, descendants, mounts, with_ids, within

from turngym.sandboxes.errors import SandboxError, SandboxLost, SandboxUnavailable
from turngym.sandboxes.protocols import Backend, Sandbox

KILLS = int(os.environ.get("TURNGYM_TEST_KILLS", "10"))
"""How often a host process is killed at a random moment."""


async def run(sandbox, code, **options):
    return await sandbox.exec(["python3", "-c", code], **options)


async def assert_fine(backend):
    async with await backend.create() as sandbox:
        assert (await run(sandbox, "print('on')")).stdout == b"on\n"


async def test_it_is_what_it_says(backend, sandbox):
    assert isinstance(backend, Backend)
    assert isinstance(sandbox, Sandbox)
    assert backend.name


async def test_its_claims_hold_by_its_own_probe(kind, backend):
    pytest.importorskip("turngym.sandboxes.probe")
    found = await backend.capabilities()
    assert found.backend.startswith(backend.name)  # a server adds what it lends
    assert await backend.capabilities() == found
    if kind.isolates:
        assert {"files", "network", "processes", "credentials", "syscalls"} <= found.enforced, found.remedies
    assert ("sessions" in found.enforced) == kind.sessions


async def test_closing_while_a_program_runs(countable, backend):
    sandbox = await backend.create()
    await sandbox.write_file("here", b"")
    running = asyncio.create_task(run(sandbox, "print('so far', flush=True)\nimport time; time.sleep(60)"))
    await asyncio.sleep(0.3)
    with within(3):
        await sandbox.close()
        with pytest.raises(SandboxLost):
            await running
    with pytest.raises(SandboxLost):
        await run(sandbox, "pass")
    assert not [label for label in descendants().values() if label.startswith("sleep")]
    await assert_fine(backend)


async def test_closing_while_calls_wait_for_their_turn(backend):
    sandbox = await backend.create()
    calls = [asyncio.create_task(run(sandbox, "import time; time.sleep(60)")) for _ in range(3)]
    await asyncio.sleep(0.2)
    with within(3):
        await sandbox.close()
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, SandboxLost) for result in results), results
    await assert_fine(backend)


async def test_closing_twice_at_once(backend):
    sandbox = await backend.create()
    await sandbox.write_file("x", b"")
    with within(3):
        await asyncio.gather(sandbox.close(), sandbox.close())
    await assert_fine(backend)


async def test_cancelling_a_program_at_random_moments(countable, backend):
    await assert_fine(backend)
    before = len(descendants())
    draw = random.Random(1)
    for _ in range(25):
        sandbox = await backend.create()
        code = draw.choice(["import time; time.sleep(60)", "pass", "while True: print('x' * 100)"])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(draw.choice([0, 0.001, 0.003, 0.01, 0.03, 0.06])):
                await run(sandbox, code)
        with contextlib.suppress(SandboxError):  # an answer to another question is never given
            assert (await run(sandbox, "print('mine')")).stdout == b"mine\n"
        with within(3):
            await sandbox.close()
    await assert_fine(backend)
    deadline = time.monotonic() + 3
    while len(descendants()) > before + 1 and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    assert len(descendants()) <= before + 1


async def test_cancelling_a_creation_at_random_moments(countable, kind):
    """With a backend of its own: the first start of helpers can be broken off too."""
    draw = random.Random(2)
    before = descendants()
    backend = kind.make()
    for number in range(60):
        made = []

        async def create(made=made):
            made.append(await backend.create())
            return await run(made[0], "print('on')")

        with contextlib.suppress(TimeoutError):
            first = [0, 0.02, 0.1, 0.2, 0.3]
            async with asyncio.timeout(draw.choice(first) if number < 5 else draw.random() * 0.02):
                await asyncio.gather(create(), create(), create())
        for sandbox in made:
            with within(3):
                await sandbox.close()
        if number == 5:
            await assert_fine(backend)
    await asyncio.gather(*(assert_fine(backend) for _ in range(4)))
    with within(5):
        await backend.close()
    assert_no_survivors(before)


async def test_many_at_once(create):
    sandboxes = await asyncio.gather(*(create() for _ in range(8)))

    async def work(number):
        sandbox = sandboxes[number]
        await sandbox.write_file("n", str(number).encode())
        result = await run(sandbox, "import time; time.sleep(0.1); print(open('n').read())")
        return result.stdout

    assert await asyncio.gather(*map(work, range(8))) == [b"%d\n" % number for number in range(8)]


async def test_a_backend_that_is_closed(countable, kind):
    before = descendants()
    backend = kind.make()
    sandbox = await backend.create()
    await sandbox.write_file("x", b"")
    running = asyncio.create_task(run(sandbox, "import time; time.sleep(60)"))
    idle = await backend.create()
    await asyncio.sleep(0.3)
    with within(5):
        await backend.close()
        await backend.close()
        with pytest.raises(SandboxLost):
            await running
    assert_no_survivors(before)
    with pytest.raises(SandboxUnavailable):
        await backend.create()
    for each in (idle, sandbox):
        with pytest.raises(SandboxLost):
            await run(each, "pass")
        with within(2):
            await each.close()


async def test_a_supervisor_that_is_killed(isolating, countable, create, backend):
    """From outside, as an administrator or the kernel may do it: an error in so many words, and no hang."""
    sandbox = await create()
    await sandbox.write_file("here", b"")
    before = descendants()
    running = asyncio.create_task(run(sandbox, "import time; print('so far', flush=True); time.sleep(60)"))
    await asyncio.sleep(0.3)
    program = [pid for pid, _ in descendants() if (pid, _) not in before]
    parents = {
        int(Path("/proc", str(pid), "stat").read_bytes().rpartition(b")")[2].split()[1]) for pid in program
    }
    supervisor = next(pid for pid in parents if pid not in program)
    os.kill(supervisor, signal.SIGKILL)
    with within(4), pytest.raises(SandboxLost):
        await running
    with within(3):
        await sandbox.close()
        while [pid for pid in program if os.path.exists(f"/proc/{pid}")]:  # it dies with its namespace
            await asyncio.sleep(0.02)
    await assert_fine(backend)


async def test_what_the_host_ignores_or_blocks_is_not_handed_on(kind):
    """A harness under `nohup`, or in the background of a shell, ignores signals; its programs do not."""
    code = (
        "import signal\nignored = [int(s) for s in signal.valid_signals() if signal.getsignal(s) == signal.SIG_IGN]\n"
        "print(sorted(ignored), signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.getsignal(signal.SIGINT))"
    )
    usual = f"[{int(signal.SIGPIPE)}, {int(signal.SIGXFSZ)}] set() {signal.default_int_handler}".partition(
        " at "
    )[0]
    ignored = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGCHLD])
    try:
        backend = kind.make()
        try:
            async with await backend.create() as sandbox:
                result = await run(sandbox, code)
                assert result.stdout_text.startswith(usual), result.stdout_text
                result = await sandbox.exec(["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"])
                for line in result.stdout_text.splitlines():
                    # 32 and 33 are the C library's own: it lets nobody set them, whoever may have ignored them once.
                    assert int(line.split()[1], 16) & ~(0b11 << 31) == 0, result.stdout_text
        finally:
            await backend.close()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in before.items():
            signal.signal(number, handler)


HOST = """
import asyncio, sys
from turngym.sandboxes.backends.namespace import NamespaceBackend, NamespaceConfig
backend = NamespaceBackend(NamespaceConfig(warm={warm}, uid_base={uid_base}))
WORK = "import os, time\\nfor _ in range(3):\\n    if os.fork() == 0: os.setsid(); time.sleep(60)\\ntime.sleep({sleep})"
async def one(number):
    while True:
        async with await backend.create() as sandbox:
            print("SLOT", sandbox._lease.slot.number, flush=True)
            if number == 0:
                session = await sandbox.session()
                await session.run("import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True)")
            await sandbox.write_file("f", b"x" * 10000)
            await sandbox.exec(["python3", "-c", WORK])
            print("ROUND", flush=True)
async def main():
    await asyncio.gather(*(one(number) for number in range(3)))
asyncio.run(main())
"""


def groups(number):
    """Control groups of one slot, below those of this process, that nobody is in."""
    found = []
    own = [line.split(":", 2)[1:] for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for name, parent in own:
        path = Path("/sys/fs/cgroup", name, parent[1:], f"turngym-{number}")
        with contextlib.suppress(OSError):
            if not (path / "cgroup.procs").read_text().split():
                found.append(path)
    return found


# The other backends have tests of their own for this.
@pytest.mark.only_for(when=lambda kind: kind.name.startswith("namespace"))
def test_a_host_that_is_killed_leaves_nothing(kind, tmp_path):
    """Processes, control groups, mounts and temporary files are gone soon after."""
    draw = random.Random(3)
    uid_base = 1_900_000_000 + 10_000 * (os.getpid() % 1000)
    # A folder of its own for temporary files: other tests make some at the same time.
    surroundings = os.environ | {"TMPDIR": str(tmp_path)}
    mounted = mounts()
    slots = set()
    for done in range(0, KILLS, 2):
        hosts = []
        for _ in range(min(2, KILLS - done)):
            text = HOST.format(
                warm=kind.name == "namespace", uid_base=uid_base, sleep=draw.choice([0, 0.02, 60])
            )
            hosts.append(
                subprocess.Popen(
                    [sys.executable, "-c", text],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=surroundings,
                )
            )
        for host in hosts:
            first = b""
            if draw.random() < 0.7:  # else at any moment of the start
                first = host.stdout.readline()
            time.sleep(draw.random() * 0.6)
            below = set(descendants(host.pid))
            host.kill()
            said, errors = host.communicate()
            assert not errors, errors.decode()[-2000:]
            lines = [line.split() for line in (first + said).splitlines()]
            slots |= {line[1].decode() for line in lines if line[0] == b"SLOT" and len(line) == 2}
            deadline = time.monotonic() + 5
            while True:
                left = [
                    pid for pid, start in below if (pid, start) in alive() and os.path.exists(f"/proc/{pid}")
                ]
                if not left and ((len(hosts) > 1 and host is hosts[0]) or not with_ids(uid_base, 1000)):
                    break
                assert time.monotonic() < deadline, f"still there: {left}, {with_ids(uid_base, 1000)}"
                time.sleep(0.05)
    deadline = time.monotonic() + 5
    while any(map(groups, slots)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert slots
    assert not [path for number in slots for path in groups(number)]
    assert set(os.listdir(tmp_path)) <= {f"turngym-slots-{os.getuid()}"}
    assert mounts() == mounted


def alive():
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X"):
                    found.add((int(name), int(fields[19])))
    return found


OTHER_HOST = """
import asyncio
from turngym.sandboxes.backends.namespace import NamespaceBackend
async def main():
    backend = NamespaceBackend()
    made = [await backend.create() for _ in range(4)]
    print([(await box.exec(["python3", "-c", "print('other')"])).stdout for box in made])
    await backend.close()
asyncio.run(main())
"""


# The other backends take slots in the same way, or none.
@pytest.mark.only_for(when=lambda kind: kind.name.startswith("namespace"))
async def test_hosts_with_different_temporary_folders_keep_apart(kind, create, tmp_path):
    """What a slot owns is the machine's, wherever its holder keeps temporary files."""
    sandboxes = [await create() for _ in range(2)]
    for sandbox in sandboxes:
        await sandbox.write_file("mine", b"mine")
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OTHER_HOST, env=env, stdout=-1, stderr=-1
    )
    said, errors = await process.communicate()
    assert said.count(b"other") == 4, errors.decode()
    for sandbox in sandboxes:
        assert (await run(sandbox, "print(open('mine').read())")).stdout == b"mine\n"
