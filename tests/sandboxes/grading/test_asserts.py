from __future__ import annotations

import pytest

from turngym.sandboxes.grading import AssertTask, Grader, Reason, TaskRefused, UnsupportedTest
from turngym.sandboxes.limits import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(wall_s=2, cpu_s=2, memory_mib=128)
HUMAN_EVAL = AssertTask(
    "has_close_elements",
    (
        "METADATA = {'author': 'x'}\n\n"
        "def check(candidate):\n"
        "    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True\n"
        "    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False\n"
        "    assert candidate([], threshold=1) is False\n\n"
        "check(has_close_elements)",
    ),
    limits=LIMITS,
)
CLOSE = """
def has_close_elements(numbers, threshold):
    ordered = sorted(numbers)
    return any(b - a < threshold for a, b in zip(ordered, ordered[1:]))
"""
MBPP = AssertTask(
    "add",
    ("assert add(1, 2) == 3", "assert math.isclose(add(0.1, 0.2), 0.3)", "assert add([1], [2]) == [1, 2]"),
    setup="import math",
    limits=LIMITS,
)
ADD = "def add(a, b):\n    return a + b\n"
FRAME = "b't2:s5:valueT'"


def task(*tests: str, setup: str = "") -> AssertTask:
    return AssertTask("f", tests, setup=setup, limits=LIMITS)


async def test_human_eval_and_mbpp(grader: Grader) -> None:
    assert (await grader.admit(HUMAN_EVAL, CLOSE)).score == 1.0
    assert (await grader.admit(MBPP, ADD)).total == 3
    verdict = await grader.grade(MBPP, "def add(a, b):\n    return 3")
    assert verdict.reasons == ("passed", "wrong_answer", "wrong_answer")
    assert verdict.score == 0.0
    early = await grader.grade(MBPP, "def add(a, b):\n    return 4", stop_at_failure=True)
    assert early.reasons == ("wrong_answer", "not_run", "not_run")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("class A:\n    __eq__ = lambda s, o: True\n    __lt__ = __eq__\n    __abs__ = __sub__ = lambda s, *a: s\n"
         "def f(x): return A()", "wrong_answer"),
        ("class A(int):\n    __eq__ = lambda s, o: True\n    __hash__ = int.__hash__\n"
         "def f(x): return A(x)", "wrong_answer"),
        ("import builtins\nbuiltins.AssertionError = Exception\ndef f(x): return 0", "wrong_answer"),
        ("import os\ndef f(x): os._exit(0)", "no_reply"),
        ("import sys\ndef f(x): sys.exit(0)", "wrong_answer"),
        ("import sys\nsys.exit(0)", "load_error"),
        ("def f(x):\n    while True: pass", "timeout"),
        ("import os\ndef f(x): os.kill(os.getpid(), 9)", "signalled"),
        ("def f(x): raise AssertionError", "wrong_answer"),
        ("def f(x): raise NameError('y')", "wrong_answer"),
        ("def f(x): raise ImportError('y')", "wrong_answer"),
        ("def f(x): raise UnicodeDecodeError('a', b'', 0, 1, 'c')", "wrong_answer"),
        ("class E(BaseException): pass\ndef f(x): raise E", "wrong_answer"),
        ("class StopIteration_(Exception): pass\ndef f(x): raise StopIteration_", "wrong_answer"),
        ("def f(x): return float('nan')", "wrong_answer"),
        ("def f(x): return None", "wrong_answer"),
        ("def g(x): return x", "missing_function"),
        ("def f(x: return", "load_error"),
        ("import gc, sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
         "        frame.f_globals['check'] = lambda c: None\n"
         "        frame = frame.f_back\n    return 0", "wrong_answer"),
        ("open('message', 'wb').write(b't1:s6:passed')\ndef f(x): return 0", "wrong_answer"),
    ],
)  # fmt: skip
async def test_hostile(source: str, reason: Reason, grader: Grader) -> None:
    near = task("def check(c):\n    assert abs(c(2) - 4) < 1e-6\n    assert c(3) == 9\ncheck(candidate)")
    verdict = await grader.grade(near, source)
    assert verdict.reasons == (reason,), verdict
    assert verdict.score == 0.0


async def test_exceptions_reach_the_test_as_pythons_own(grader: Grader) -> None:
    test = (
        "try:\n    candidate(-1)\nexcept ValueError as error:\n    assert str(error) == 'negative'\n"
        "else:\n    assert False\nassert candidate(4) == 2"
    )
    right = "def f(x):\n    if x < 0: raise ValueError('negative')\n    return x ** 0.5"
    assert (await grader.grade(task(test), right)).score == 1.0
    assert (await grader.grade(task(test), "def f(x): return abs(x) ** 0.5")).score == 0.0
    no_value = "def f(x): return object() if x < 0 else x ** 0.5"  # what cannot be sent is no ValueError
    assert (await grader.grade(task(test), no_value)).score == 0.0
    lenient = "try:\n    candidate(-1)\nexcept ValueError:\n    pass\nelse:\n    assert False"
    assert (await grader.grade(task(lenient), no_value)).score == 0.0
    own = "class E(Exception): pass\ndef f(x): raise E('negative')"
    assert (await grader.grade(task(test), own)).score == 0.0


async def test_an_exception_cannot_end_a_tests_loop_in_silence(grader: Grader) -> None:
    test = "for got, want in zip(map(candidate, [1, 2]), [1, 4]):\n    assert got == want"
    assert (await grader.grade(task(test), "def f(x): return x * x")).score == 1.0
    assert (await grader.grade(task(test), "def f(x): raise StopIteration")).score == 0.0
    test = "for got, want in zip((candidate(x) for x in [1, 2]), [1, 4]):\n    assert got == want"
    assert (await grader.grade(task(test), "def f(x): raise StopIteration")).score == 0.0
    assert (await grader.grade(task(test), "def f(x): raise GeneratorExit")).score == 0.0


async def test_values_go_both_ways_by_type(grader: Grader) -> None:
    test = (
        "value = {(1, 2): [3, {4}], 'k': (None, True, 1.5, b'x')}\nback = candidate(value, again=[value])\n"
        "assert back == [value, [value]] and type(back[0]['k']) is tuple and back[0]['k'][1] is True"
    )
    assert (await grader.grade(task(test), "def f(x, again): return [x, again]")).score == 1.0
    long = "assert candidate('x' * 300_000) == 'x' * 300_000"
    assert (await grader.grade(task(long), "def f(x): return x")).score == 1.0
    chained = "assert candidate(candidate({1})) == {1}"
    assert (await grader.grade(task(chained), "def f(x): return x")).score == 1.0


async def test_noise_of_a_test_means_nothing(grader: Grader) -> None:
    test = "import sys\nprint('failed')\nsys.stderr.write('Traceback')\nassert candidate(1) == 1"
    assert (await grader.grade(task(test), "print('x')\ndef f(x): return x")).score == 1.0


@pytest.mark.parametrize(
    ("test", "why"),
    [
        ("assert candidate(lambda x: x) == 1", "no plain value"),
        ("class P: pass\nassert candidate([P()]) == 1", "no plain value"),
        ("assert candidate(helper(1)) == 1", "NameError"),
        ("import missing_module_of_nobody\nassert candidate(1) == 1", "ModuleNotFoundError"),
        ("assert candidate(1 ==", "SyntaxError"),
        ("assert True", "never calls"),
        ("raise SystemExit(0)", "SystemExit"),
        ("while True: pass", "does not end"),
        ("import os\nos._exit(0)", "ends its interpreter"),
        ("x = []\nx.append(x)\ncandidate(x)", "cannot be sent"),
    ],
)
async def test_what_cannot_be_tested_this_way_is_no_score(test: str, why: str, grader: Grader) -> None:
    with pytest.raises(UnsupportedTest, match=why):
        await grader.grade(task(test), "def f(x): return 1")


async def test_a_test_that_hangs_at_what_it_was_given(grader: Grader) -> None:
    test = "n = candidate(1)\nwhile n: pass"
    assert (await grader.grade(task(test), "def f(x): return 1")).reasons == ("timeout",)


async def test_a_test_that_dies_at_what_it_was_given(grader: Grader) -> None:
    test = "import os\nif candidate(1): os._exit(0)"
    assert (await grader.grade(task(test), "def f(x): return 1")).reasons == ("sandbox_lost",)


async def test_state_and_changed_arguments_are_found_at_admission(grader: Grader) -> None:
    with pytest.raises(TaskRefused, match="case 0"):
        await grader.admit(task("x = [2, 1]\ncandidate(x)\nassert x == [1, 2]"), "def f(x): x.sort()")


async def test_the_model_never_sees_the_test(grader: Grader) -> None:
    source = (
        "import gc, os, sys\ndef f(x):\n    texts = [str(gc.get_objects()), sys.stdin.read()]\n"
        "    for root, _, names in os.walk('/proc/self'):\n        for name in names:\n"
        "            try: texts.append(open(os.path.join(root, name), errors='replace').read(100000))\n"
        "            except OSError: pass\n"
        "    return any(''.join(('sec', 'ret-of-the-test')) in text for text in texts)"
    )
    test = "'secret-of-the-test'\nassert candidate(1) is False"
    assert (await grader.grade(task(test, setup="s = 'secret-of-the-test'"), source)).score == 1.0


async def test_a_task_needs_tests() -> None:
    with pytest.raises(ValueError, match="no tests"):
        AssertTask("f", ())
