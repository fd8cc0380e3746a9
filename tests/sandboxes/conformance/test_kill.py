"""Nothing outlives its call: time limits, daemons, and programs that will not die."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from conformance.helpers import assert_no_survivors, descendants, within

from turngym.sandboxes.errors import SessionLost


async def run(sandbox, code, *arguments, **options):
    return await sandbox.exec(["python3", "-c", code, *arguments], **options)


async def watched(sandbox, code, *, seconds=6.0, **options):
    """Run a program, and see to it that it ends in time and leaves no process on the host."""
    await sandbox.write_file("here", b"")
    before = descendants()
    with within(seconds):
        result = await run(sandbox, code, **options)
    assert_no_survivors(before)
    assert (await run(sandbox, "print('on')")).stdout == b"on\n"
    return result


TIMED = {
    "sleeping": "import os, time\nos.write(1, b'before\\n')\ntime.sleep(60)",
    "busy": "import os\nos.write(1, b'before\\n')\nwhile True: pass",
    "ignoring": "import os, signal, time\n"
    "for s in set(signal.valid_signals()) - {9, 19}: signal.signal(s, signal.SIG_IGN)\n"
    "os.write(1, b'before\\n')\ntime.sleep(60)",
    "stopped": "import os, signal\nos.write(1, b'before\\n')\nos.kill(os.getpid(), signal.SIGSTOP)",
    "stopped with a stopped child": "import os, signal\n"
    "if os.fork() == 0: os.setsid(); os.kill(os.getpid(), signal.SIGSTOP)\n"
    "os.write(1, b'before\\n'); os.kill(0, signal.SIGSTOP)",
    "waiting for itself": "import os\nos.write(1, b'before\\n')\nr, w = os.pipe()\nos.read(r, 1)",
    "blocking all signals": "import os, signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\n"
    "os.write(1, b'before\\n')\nwhile True: time.sleep(1)",
    "in vfork": "import os, subprocess, time\nos.write(1, b'before\\n')\nsubprocess.run(['sleep', '60'])",
    "main thread gone": "import ctypes, os, threading, time\nos.write(1, b'before\\n')\n"
    "threading.Thread(target=time.sleep, args=(60,)).start()\nctypes.CDLL(None).pthread_exit(None)",
}


@pytest.mark.parametrize("name", TIMED)
async def test_the_time_limit_ends_it(countable, create, name):
    sandbox = await create(wall_s=0.7)
    result = await watched(sandbox, TIMED[name])
    assert (result.status, result.exit_code, result.signal) == ("timeout", None, None)
    assert result.stdout == b"before\n"
    assert 0.7 <= result.wall_s < 3


async def test_the_processor_limit_ends_it(create):
    sandbox = await create(cpu_s=1)
    with within(6):
        result = await run(sandbox, "while True: pass")
    assert result.status == "timeout"
    assert result.wall_s < 5


async def test_a_handler_for_the_processor_limit_does_not_help(create):
    sandbox = await create(cpu_s=1)
    code = "import signal\nsignal.signal(signal.SIGXCPU, lambda *_: print('caught', flush=True))\nwhile True: pass"
    with within(6):
        result = await run(sandbox, code)
    assert (result.status, result.stdout) == ("timeout", b"caught\n")


async def test_the_time_limit_of_one_call(sandbox):
    short = sandbox.limits.model_copy(update={"wall_s": 0.3})
    assert (await run(sandbox, "import time; time.sleep(60)", limits=short)).status == "timeout"
    assert (await run(sandbox, "import time; time.sleep(0.5)")).status == "exited"


DAEMONS = {
    "fifty sessions": """
import os, time
for n in range(50):
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
print("ATTEMPT", n + 1)
""",
    "double forks that hold the pipes": """
import os, signal, time
for n in range(10):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)
            while True:
                time.sleep(0.05); os.write(1, b"late\\n")
        os._exit(0)
    os.wait()
print("ATTEMPT", n + 1)
""",
    "closing everything": """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256); os.chdir("/")
        time.sleep(60)
    os._exit(0)
print("ATTEMPT 1")
""",
    "zombies": """
import os
for n in range(40):
    if os.fork() == 0: os._exit(0)
print("ATTEMPT", n + 1, flush=True)
os._exit(0)
""",
    "orphans of zombies": """
import os, time
for n in range(10):
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
print("ATTEMPT", n + 1, flush=True)
os._exit(0)
""",
    "a chain of forks that runs away": """
import os
os.write(1, b"ATTEMPT 1\\n")
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            if os.fork() > 0: os._exit(0)
        except OSError: pass
os._exit(0)
""",
    "threads that fork": """
import os, threading, time
def go():
    if os.fork() == 0: os.setsid(); time.sleep(60)
threads = [threading.Thread(target=go) for _ in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]
print("ATTEMPT 10", flush=True)
os._exit(0)
""",
    "a deleted program": """
import os, shutil, subprocess
shutil.copy("/bin/sleep", "mine"); os.chmod("mine", 0o755)
subprocess.Popen(["./mine", "60"], start_new_session=True)
os.unlink("mine")
print("ATTEMPT 1", flush=True)
os._exit(0)
""",
    "orphaned process groups that stop": """
import os, signal, time
if os.fork() == 0:
    os.setpgid(0, 0)
    if os.fork() == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(0)
os.wait(); print("ATTEMPT 1", flush=True); os._exit(0)
""",
}


@pytest.mark.parametrize("name", DAEMONS)
async def test_daemons_end_with_the_program(countable, create, name):
    sandbox = await create(processes=128)
    result = await watched(sandbox, DAEMONS[name])
    assert (result.status, result.exit_code) == ("exited", 0)
    assert b"ATTEMPT" in result.stdout
    assert result.wall_s < 4


@pytest.mark.parametrize("name", DAEMONS)
async def test_daemons_end_beside_a_session(countable, with_sessions, create, name):
    """The interpreter of a session outlives a program, and nothing that the program started does."""
    sandbox = await create(processes=128)
    session = await sandbox.session()
    await session.run("x = 5")
    result = await watched(sandbox, DAEMONS[name], seconds=9)
    assert (result.status, result.exit_code) == ("exited", 0)
    try:
        assert (await session.run("x")).value == "5"
    except SessionLost:  # the price of ending what forks faster than it is found
        assert name == "a chain of forks that runs away"


async def test_output_after_the_end_is_not_waited_for(sandbox):
    code = (
        "import os, time\nif os.fork() == 0:\n    time.sleep(1); os.write(1, b'late')\n"
        "os.write(1, b'now'); os._exit(0)"
    )
    with within(4):
        result = await run(sandbox, code)
    assert result.stdout == b"now"
    assert (await run(sandbox, "import time; time.sleep(1.2); print('alone')")).stdout == b"alone\n"


async def test_killing_all_and_everything_that_can_be_signalled(isolating, kind, sandbox):
    code = """
import os, signal
print("ATTEMPT", flush=True)
for pid in [1, os.getppid(), -1]:
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGRTMIN, signal.SIGKILL):
        if pid == -1 and number in (signal.SIGSTOP, signal.SIGKILL): continue
        if pid == -1: signal.signal(number, signal.SIG_IGN)
        try: os.kill(pid, number)
        except (PermissionError, ProcessLookupError): pass
        else: print("sent", pid, number, flush=True)
for _ in range(20000):
    try: os.kill(os.getppid(), signal.SIGUSR1)
    except PermissionError: pass
print("done")
"""
    result = await run(sandbox, code)
    assert result.stdout.splitlines()[0] == b"ATTEMPT"
    assert kind.tolerates or b"sent 1 " not in result.stdout
    assert result.stdout.endswith(b"done\n")
    assert (await run(sandbox, "print('on')")).stdout == b"on\n"


async def test_a_fork_bomb_beside_a_session(isolating, with_sessions, create):
    """It may cost the session, in so many words, but neither the sandbox nor the time."""
    sandbox = await create(wall_s=1.5)
    session = await sandbox.session()
    await session.run("x = 5")
    code = "import os\nos.write(1, b'ATTEMPT')\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    with within(12):
        result = await run(sandbox, code)
    assert (result.status, result.stdout) == ("timeout", b"ATTEMPT")
    with contextlib.suppress(SessionLost):
        assert (await session.run("x")).value == "5"
    assert (await run(sandbox, "import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))")).ok


async def test_cancelling_ends_the_program(countable, create, backend):
    sandbox = await create()
    await sandbox.write_file("here", b"")
    before = descendants()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await run(sandbox, "import time; time.sleep(60)")
    with within(3):
        await sandbox.close()
    assert_no_survivors(before)
    async with await backend.create() as other:
        assert (await run(other, "print('on')")).stdout == b"on\n"
