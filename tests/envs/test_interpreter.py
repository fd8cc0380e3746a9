import asyncio
import copy

import pytest

from turngym.envs.errors import InfrastructureError
from turngym.envs.interpreter import Interpreter, shortened, told
from turngym.sandboxes import Limits, SessionResult

pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.fixture
async def interpreter():
    one = Interpreter(limits=Limits(wall_s=1.0, cpu_s=3600.0))
    yield one
    await one.aclose()


async def test_variables_survive_and_answers_say_what_happened(interpreter):
    said = [await interpreter.run(code) for code in ("x = 20", "print('a')\nx + 1", "1/0", "x", "None")]
    assert said[:2] == ["", "a\n21"]
    assert said[2].endswith("ZeroDivisionError: division by zero")
    assert said[3:] == ["20", ""]


async def test_a_call_without_end_is_stopped_and_a_dead_interpreter_is_told(interpreter):
    await interpreter.run("x = 1")
    assert (
        await interpreter.run("while True: pass") == "Stopped: this call took too long. Variables are kept."
    )
    assert await interpreter.run("x") == "1"
    await interpreter.run("open('kept', 'w').write('y')")
    assert "all variables are gone" in await interpreter.run("import os\nos._exit(0)")
    assert "NameError" in await interpreter.run("x")
    assert await interpreter.run("open('kept').read()") == "'y'"


async def test_long_answers_lose_their_middle_and_odd_text_does_no_harm(interpreter):
    long = await interpreter.run("print('x' * 100000)")
    assert len(long) < 5000
    assert "characters left out" in long
    for code in ("\ud800", "print('\\ud800')", "\0", "", "#" * 100_000):
        assert isinstance(await interpreter.run(code), str)


async def test_a_copy_has_the_same_past_and_a_future_of_its_own(interpreter):
    await interpreter.run("xs = [1]")
    twin = copy.deepcopy(interpreter)
    await interpreter.run("xs.append(2)")
    assert await twin.run("xs") == "[1]"
    assert await interpreter.run("xs") == "[1, 2]"
    await twin.aclose()


async def test_a_past_that_cannot_be_repeated_is_a_failure(interpreter):
    await interpreter.run("import time\ntime.time_ns()")
    twin = copy.deepcopy(interpreter)
    with pytest.raises(InfrastructureError, match="went another way"):
        await twin.run("1")


def test_it_can_be_used_from_one_event_loop_after_the_other():
    one = Interpreter()
    assert asyncio.run(one.run("x = 6")) == ""
    assert asyncio.run(one.run("x * 7")) == "42"
    asyncio.run(one.aclose())


def test_warnings_are_shown_and_the_text_for_an_interruption_is_short():
    def result(status, stdout=b"", stderr=b"", value=None):
        return SessionResult(status, stdout, stderr, False, False, value, 0.0)

    assert told(result("ok", b"out\n", b"Warning: w\n", "1")) == "out\nWarning: w\n1"
    assert told(result("interrupted", b"out", b"Traceback")).startswith("out\nStopped")
    assert told(result("error", b"", b"a\nb\nc\nd\n")) == "b\nc\nd"
    assert shortened("abcdef", 4) == "ab\n… 2 characters left out …\nef"
