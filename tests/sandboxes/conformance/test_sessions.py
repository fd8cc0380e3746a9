"""A stateful interpreter: what it remembers, how it is stopped, and what it may not do to its supervisor."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from conformance.helpers import assert_no_survivors, descendants, within

from turngym.sandboxes.errors import SandboxLost, SessionLost

pytestmark = pytest.mark.usefixtures("with_sessions")


async def short(sandbox, wall_s=0.4):
    return sandbox.limits.model_copy(update={"wall_s": wall_s})


async def test_variables_survive_and_values_are_shown(sandbox):
    session = await sandbox.session()
    assert (await session.run("import math\nx = [1]\ndef f(): return x")).value is None
    result = await session.run("x.append(math.floor(2.5))\nf()")
    assert (result.status, result.value, result.stdout) == ("ok", "[1, 2]", b"")
    assert (await session.run("None")).value is None
    assert (await session.run("_ = 3; 'text'")).value == "'text'"


async def test_output_belongs_to_its_call(sandbox):
    session = await sandbox.session()
    first = await session.run("print('one'); import sys; print('err', file=sys.stderr)")
    second = await session.run("print('two', end='')")
    assert (first.stdout, first.stderr) == (b"one\n", b"err\n")
    assert (second.stdout, second.stderr) == (b"two", b"")
    raw = await session.run("import os; os.write(1, b'\\xff'); os.system('echo from a child')")
    assert raw.stdout == b"\xfffrom a child\n"


async def test_errors_are_reported_and_survived(sandbox):
    session = await sandbox.session()
    result = await session.run("x = 1\ny = x / 0")
    assert (result.status, result.value) == ("error", None)
    assert result.stderr_text.endswith("ZeroDivisionError: division by zero\n")
    assert "y = x / 0" in result.stderr_text
    assert "<turngym>" not in result.stderr_text
    assert (await session.run("x")).value == "1"
    assert (await session.run("def broken(:")).status == "error"
    assert (await session.run("raise SystemExit(3)")).status == "error"
    assert (await session.run("import sys; sys.exit()")).status == "error"
    assert (await session.run("raise KeyboardInterrupt")).status == "error"
    assert (
        await session.run("class E(BaseException):\n    def __str__(self): raise self\nraise E")
    ).status == "error"
    assert (await session.run("x")).value == "1"


async def test_a_value_that_cannot_be_shown(sandbox):
    session = await sandbox.session()
    code = "class A:\n    def __repr__(self): raise ValueError('no')\nA()"
    assert (await session.run(code)).status == "error"
    code = "class B:\n    def __repr__(self): return '\\ud800\\udcff'\nB()"
    assert (await session.run(code)).value == "\\ud800\\udcff"
    result = await session.run("'x' * 10_000_000")
    assert len(result.value or "") <= 1 << 16
    assert (await session.run("1")).value == "1"


async def test_the_time_limit_interrupts(sandbox):
    session = await sandbox.session()
    await session.run("x = 7")
    with within(3):
        result = await session.run(
            "import time\nprint('before', flush=True)\ntime.sleep(60)", limits=await short(sandbox)
        )
    assert (result.status, result.stdout) == ("interrupted", b"before\n")
    result = await session.run("while True: pass", limits=await short(sandbox))
    assert result.status == "interrupted"
    assert (await session.run("x")).value == "7"


STUBBORN = {
    "ignored": "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)",
    "caught": "import time\nwhile True:\n    try: time.sleep(60)\n    except BaseException: pass",
    "blocked": "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [2])\ntime.sleep(60)",
    "stopped": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "in C": "sum(range(10**12))",
}


@pytest.mark.parametrize("name", STUBBORN)
async def test_what_cannot_be_interrupted_is_killed_and_said_to_be_lost(sandbox, name):
    session = await sandbox.session()
    await session.run("x = 7; open('kept', 'w').write('kept')")
    code = "import os\nos.write(1, b'so far')\n" + STUBBORN[name]
    with within(6), pytest.raises(SessionLost) as lost:
        await session.run(code, limits=await short(sandbox))
    assert lost.value.stdout == b"so far"
    with pytest.raises(SessionLost):
        await session.run("x")
    assert await sandbox.read_file("kept") == b"kept"
    again = await sandbox.session()
    assert (await again.run("'x' in globals()")).value == "False"


@pytest.mark.parametrize(
    "code",
    ["import os; os._exit(3)", "import os; os.kill(os.getpid(), 9)", "import ctypes; ctypes.string_at(0)",
     "import os; os.closerange(3, 100)", "import os; os.execvp('true', ['true'])", "import os; os.abort()"],
    ids=["exit", "kill", "crash", "close", "exec", "abort"],
)  # fmt: skip
async def test_an_interpreter_that_ends_is_lost(sandbox, code):
    session = await sandbox.session()
    await session.run("print('x')")
    with within(4):
        with contextlib.suppress(SessionLost):  # where the end comes with the call, or a moment after it
            await session.run("print('so far', flush=True)\n" + code)
        with pytest.raises(SessionLost):
            await session.run("1")
    assert (await sandbox.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"
    assert (await (await sandbox.session()).run("1 + 1")).value == "2"


async def test_threads_that_end_it_do_not_hang_it(sandbox):
    session = await sandbox.session()
    code = (
        "import os, threading, time\nthreading.Thread(target=lambda: (time.sleep(0.3), os._exit(0))).start()"
    )
    assert (await session.run(code)).status == "ok"
    await asyncio.sleep(0.6)
    with within(3), pytest.raises(SessionLost):
        await session.run("1")


async def test_programs_run_beside_it(sandbox):
    session = await sandbox.session()
    await session.run("x = 1; open('f', 'w').write('from the session')")
    result = await sandbox.exec(["python3", "-c", "print(open('f').read())"])
    assert result.stdout == b"from the session\n"
    await sandbox.write_file("g", b"from the host")
    assert (await session.run("open('g').read(), x")).value == "('from the host', 1)"


async def test_its_daemons_end_with_it(countable, sandbox):
    await sandbox.write_file("here", b"")
    before = descendants()
    session = await sandbox.session()
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n"
        "    if os.fork() == 0: time.sleep(60)\n    os._exit(0)\nos.wait()[0] > 0"
    )
    assert (await session.run(code)).value == "True"
    with within(4):
        await session.close()
        await session.close()
    assert_no_survivors(before)
    assert (await sandbox.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"


async def test_much_output_is_bounded_and_does_not_block(create):
    sandbox = await create(stdout_bytes=10_000, stderr_bytes=10_000)
    session = await sandbox.session()
    with within(5):
        result = await session.run("print('x' * 3_000_000); 'done'")
    assert (result.status, result.value) == ("ok", "'done'")
    assert (result.stdout, result.stdout_truncated) == (b"x" * 10_000, True)
    result = await session.run("print('y')")
    assert (result.stdout, result.stdout_truncated) == (b"y\n", False)


async def test_a_large_piece_of_code(sandbox):
    session = await sandbox.session()
    result = await session.run("x = '" + "a" * 3_000_000 + "'\nlen(x)")
    assert result.value == "3000000"


async def test_input_is_at_its_end(sandbox):
    session = await sandbox.session()
    result = await session.run("input()")
    assert result.status == "error"
    assert "EOFError" in result.stderr_text
    assert (await session.run("import sys; sys.stdin.read()")).value == "''"


async def test_streams_that_the_code_closes_or_replaces(sandbox):
    session = await sandbox.session()
    result = await session.run(
        "import io, sys\nkept = sys.stdout\nsys.stdout = io.StringIO()\nprint('into it')"
    )
    assert (result.status, result.stdout) == ("ok", b"")
    assert (await session.run("sys.stdout.getvalue()")).value == "'into it\\n'"
    assert (await session.run("sys.stdout = None\nprint('nowhere')")).status == "ok"
    assert (await session.run("sys.stdout = kept\nprint('back')")).stdout == b"back\n"
    assert (await session.run("sys.stdout.close()")).status == "ok"
    assert (await session.run("1 + 1")).value == "2"
    result = await session.run("import os\nos.close(1)\nos.close(2)\n2 + 2")
    assert (result.status, result.value, result.stdout) == ("ok", "4", b"")
    assert (await session.run("3 + 3")).value == "6"


async def test_threads_and_their_output(sandbox):
    session = await sandbox.session()
    code = (
        "import threading\nt = threading.Thread(target=print, args=('from a thread',))\nt.start(); t.join()"
    )
    assert (await session.run(code)).stdout == b"from a thread\n"
    code = (
        "import time\ndef late():\n    time.sleep(0.3); print('late', flush=True)\n"
        "threading.Thread(target=late, daemon=True).start()"
    )
    assert (await session.run(code)).stdout == b""
    assert (await session.run("time.sleep(0.6)")).stdout == b"late\n"


FORGED = {
    "a finished frame": "os.write(fd, frame(b'd6:status2:oke'))",
    "many of them": "[os.write(fd, frame(b'd6:status2:oke')) for _ in range(50)]",
    "a value that is no text": "os.write(fd, frame(b'd6:status2:ok5:valuei7ee'))",
    "a status that is none": "os.write(fd, frame(b'd6:status6:exitede'))",
    "no dictionary": "os.write(fd, frame(b'i7e'))",
    "keys that are no text": "os.write(fd, frame(b'di1ei1ee'))",
    "keys that are lists": "os.write(fd, frame(b'dlei1ee'))",
    "damage": "os.write(fd, frame(b'd6:sta'))",
    "half a frame": "os.write(fd, (1000).to_bytes(4, 'big') + b'd6:')",
    "a part of a length": "os.write(fd, b'\\0\\0')",
    "a huge length": "os.write(fd, b'\\xff\\xff\\xff\\xff')",
    "a large length and nothing": "os.write(fd, (300 << 20).to_bytes(4, 'big'))",
    "a deep nest": "os.write(fd, frame(b'l' * 5000 + b'e' * 5000))",
    "noise": "os.write(fd, os.urandom(5000))",
}


@pytest.mark.parametrize("name", FORGED)
async def test_forged_answers_harm_nobody_but_their_session(countable, sandbox, name):
    """The code can end its own call early. It cannot block the supervisor, crash it, or make it say what is not so."""
    session = await sandbox.session()
    code = (
        "import os, time\nframe = lambda b: len(b).to_bytes(4, 'big') + b\nos.write(1, b'ATTEMPT')\n"
        f"for fd in range(3, 12):\n    try: {FORGED[name]}\n    except OSError: pass\ntime.sleep(1.5)\n'honest'"
    )
    with within(6):
        try:
            said = await session.run(code, limits=await short(sandbox, 0.8))
        except SessionLost as lost:
            said = lost
        assert getattr(said, "status", "lost") in ("ok", "interrupted", "lost")
        assert said.stdout == b"ATTEMPT"
        with contextlib.suppress(SessionLost):
            await session.run("1", limits=await short(sandbox, 0.8))
    with within(3):
        assert (await sandbox.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"
        again = await sandbox.session()
        assert (await again.run("6 * 7")).value == "42"


async def test_an_answer_that_nobody_asked_for_is_no_answer(sandbox):
    """Frames that lie in the pipe before a call do not stand for it."""
    session = await sandbox.session()
    code = (
        "import os, threading, time\nframe = b'd6:status2:ok5:value6:forgede'\n"
        "def later():\n    time.sleep(0.2); os.write(4, len(frame).to_bytes(4, 'big') + frame)\n"
        "threading.Thread(target=later).start()"
    )
    assert (await session.run(code)).status == "ok"
    await asyncio.sleep(0.5)
    with within(3), pytest.raises(SessionLost):
        await session.run("1 + 1")


async def test_an_interpreter_that_reads_no_more_code(sandbox):
    session = await sandbox.session()
    code = (
        "import os, signal, threading, time\n"
        "def stop(): time.sleep(0.2); os.kill(os.getpid(), signal.SIGSTOP)\n"
        "threading.Thread(target=stop).start()"
    )
    assert (await session.run(code)).status == "ok"
    await asyncio.sleep(0.5)
    with within(5), pytest.raises(SessionLost):
        await session.run("x = '" + "a" * 1_000_000 + "'", limits=await short(sandbox))
    assert (await sandbox.exec(["python3", "-c", "print('on')"])).stdout == b"on\n"


async def test_many_sessions_one_after_the_other(sandbox):
    for number in range(150):
        session = await sandbox.session()
        if number % 30 == 0:
            assert (await session.run(f"{number}")).value == str(number)
        await session.close()
    result = await sandbox.exec(["python3", "-c", "print('on')"])
    assert result.stdout == b"on\n"


async def test_a_new_session_ends_the_last(sandbox):
    first = await sandbox.session()
    await first.run("x = 1")
    second = await sandbox.session()
    assert (await second.run("'x' in globals()")).value == "False"


async def test_memory_of_a_session_is_bounded(isolating, create):
    sandbox = await create(memory_mib=96)
    session = await sandbox.session()
    with within(8), contextlib.suppress(SandboxLost):
        result = await session.run("print('ATTEMPT', flush=True)\nblock = bytearray(b'x' * (400 << 20))")
        assert result.status == "error"


async def test_closing_the_sandbox_ends_the_session(countable, create, backend):
    before = descendants()
    sandbox = await create()
    session = await sandbox.session()
    await session.run("import subprocess\nsubprocess.Popen(['sleep', '60'], start_new_session=True)")
    with within(4):
        await sandbox.close()
    with pytest.raises(SandboxLost):
        await session.run("1")
    left = {process: label for process, label in descendants().items() if process not in before}
    assert not [label for label in left.values() if label.startswith("sleep")]


async def test_modules_beside_it_and_a_main_module(sandbox):
    await sandbox.write_file("helper.py", b"value = 9\n")
    session = await sandbox.session()
    assert (await session.run("import helper\nhelper.value")).value == "9"
    assert (
        await session.run("import __main__\n__main__.helper is helper, __name__")
    ).value == "(True, '__main__')"
    code = "import pickle\nclass A:\n    def __init__(self): self.x = 1\npickle.loads(pickle.dumps(A())).x"
    assert (await session.run(code)).value == "1"
    code = "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 5\nasyncio.run(f())"
    assert (await session.run(code)).value == "5"
