"""Candidates for a function `f` that doubles: hostile ones score 0, honest and awkward ones 1."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import pytest

from turngym.sandboxes.backends.namespace import NamespaceBackend, NamespaceConfig
from turngym.sandboxes.grading import Case, FunctionTask, Grader, Reason, Rules, TaskRefused, Verdict
from turngym.sandboxes.grading.calls import MAX_REPLY
from turngym.sandboxes.limits import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(
    wall_s=1.5, cpu_s=1.0, memory_mib=128, processes=16, stdout_bytes=1 << 18, stderr_bytes=1 << 18
)
DOUBLE = FunctionTask("f", tuple(Case((x,), expected=2 * x) for x in (1, 2, 21)), limits=LIMITS)
RIGHT = "def f(x):\n    return 2 * x\n"

FIND_REPLY = """
import os
def reply_fds():
    found = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                if os.readlink("/proc/self/fd/" + name).startswith("pipe:"):
                    found.append(int(name))
            except OSError:
                pass
    return found
def frame(n):
    return b"t2:s5:valuei%x;" % n
def forge(data):
    for fd in reply_fds():
        try:
            os.write(fd, data)
        except OSError:
            pass
"""

HOSTILE: dict[str, tuple[str, set[Reason]]] = {
    "int_that_equals_all": (
        "class I(int):\n    __eq__ = lambda s, o: True\n    __ne__ = lambda s, o: False\n    __hash__ = int.__hash__\n"
        "def f(x): return I(0)",
        {"wrong_answer"},
    ),
    "float_with_class_of_int": (
        "class I:\n    __class__ = property(lambda s: int)\n    __index__ = __int__ = lambda s: 2\n"
        "    __eq__ = lambda s, o: True\ndef f(x): return I()",
        {"wrong_answer"},
    ),
    "metaclass_that_lies_about_its_name": (
        "class M(type):\n    __name__ = property(lambda c: 1 / 0)\n    __eq__ = lambda c, o: True\n"
        "    __hash__ = lambda c: hash(int)\nclass A(metaclass=M): pass\ndef f(x): return A()",
        {"wrong_answer"},
    ),
    "mock_any": ("from unittest.mock import ANY\ndef f(x): return ANY", {"wrong_answer"}),
    "text_of_the_answer": ("def f(x): return str(2 * x)", {"wrong_answer"}),
    "float_of_the_answer": ("def f(x): return 2.0 * x", {"wrong_answer"}),
    "generator": ("def f(x): yield 2 * x", {"wrong_answer"}),
    "coroutine": ("async def f(x): return 2 * x", {"wrong_answer"}),
    "answer_in_a_list": ("def f(x): return [2 * x]", {"wrong_answer"}),
    "all_answers": ("def f(x): return set(range(1000))", {"wrong_answer"}),
    "right_reply_and_the_usual_one": (
        FIND_REPLY + "def f(x):\n    forge(frame(2 * x))\n    return 2 * x",
        {"malformed_reply"},
    ),
    "right_reply_twice": (
        FIND_REPLY + "def f(x):\n    forge(frame(2 * x) * 2)\n    os._exit(0)",
        {"malformed_reply"},
    ),
    "right_reply_with_a_newline": (
        FIND_REPLY + "def f(x):\n    forge(frame(2 * x) + b'\\n')\n    os._exit(0)",
        {"malformed_reply"},
    ),
    "right_reply_and_a_crash": (
        FIND_REPLY + "def f(x):\n    forge(frame(2 * x))\n    os._exit(1)",
        {"exit_code"},
    ),
    "right_reply_and_a_signal": (
        FIND_REPLY + "def f(x):\n    forge(frame(2 * x))\n    os.kill(os.getpid(), 11)",
        {"signalled"},
    ),
    "right_reply_and_then_hangs": (
        FIND_REPLY + "def f(x):\n    forge(frame(2 * x))\n    import time; time.sleep(60)",
        {"timeout"},
    ),
    "wrong_reply": (FIND_REPLY + "def f(x):\n    forge(frame(7))\n    os._exit(0)", {"wrong_answer"}),
    "reply_that_says_passed": (
        FIND_REPLY + "def f(x):\n    forge(b't1:s6:passed')\n    os._exit(0)",
        {"malformed_reply"},
    ),
    "reply_of_another_protocol": (
        FIND_REPLY + 'def f(x):\n    forge(b\'{"passed": true, "score": 1.0}\')\n    os._exit(0)',
        {"malformed_reply"},
    ),
    "reply_of_a_pickle": (
        FIND_REPLY + "import pickle\ndef f(x):\n    forge(pickle.dumps(2 * x))\n    os._exit(0)",
        {"malformed_reply"},
    ),
    "reply_without_end": (
        FIND_REPLY + "def f(x):\n    for fd in reply_fds():\n        try:\n"
        "            while True: os.write(fd, b'l1:' * 10000)\n        except OSError: pass\n",
        {"malformed_reply", "output_limit", "exit_code"},
    ),
    "reply_of_great_depth": (
        FIND_REPLY + "def f(x):\n    forge(b't2:s5:value' + b'l1:' * 9000 + b'N')\n    os._exit(0)",
        {"malformed_reply"},
    ),
    "reply_with_a_great_count": (
        FIND_REPLY + "def f(x):\n    forge(b't2:s5:valuelffffffff:')\n    os._exit(0)",
        {"malformed_reply"},
    ),
    "reply_of_opaque_type": (
        FIND_REPLY + "def f(x):\n    forge(b't2:s5:valueo3:int')\n    os._exit(0)",
        {"wrong_answer"},
    ),
    "thread_that_writes_replies": (
        FIND_REPLY + "import threading, time\nready = threading.Event()\ndef spam():\n    while True:\n"
        "        forge(frame(2))\n        ready.set()\n"
        "threading.Thread(target=spam, daemon=True).start()\nready.wait()\ndef f(x): return 2",
        {"malformed_reply"},
    ),
    "replaced_encoder": (
        "import sys\ndef f(x):\n    frame = sys._getframe(0)\n    while frame:\n"
        "        frame.f_globals['encode'] = lambda *a: b't1:s6:passed'\n        frame = frame.f_back\n    return 0",
        {"malformed_reply"},
    ),
    "exit_in_function": ("import os\ndef f(x): os._exit(0)", {"no_reply"}),
    "sys_exit_in_function": ("import sys\ndef f(x): sys.exit(0)", {"exception"}),
    "sys_exit_at_import": (RIGHT + "import sys\nsys.exit(0)", {"load_error"}),
    "exception_that_exits": (
        "import os\nclass E(BaseException):\n    def __str__(self): os._exit(0)\ndef f(x): raise E",
        {"no_reply"},
    ),
    "exception_of_evil_name": (
        "class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=M): pass\n"
        "def f(x): raise E",
        {"exception", "no_reply", "exit_code"},
    ),
    "keyboard_interrupt": ("def f(x): raise KeyboardInterrupt", {"exception"}),
    "other_program": ("import os\ndef f(x): os.execv('/usr/bin/true', ['true'])", {"no_reply"}),
    "kills_itself": ("import os\ndef f(x): os.kill(os.getpid(), 9)", {"signalled"}),
    "kills_all": (
        "import os\ndef f(x):\n    os.kill(-1, 9)\n    os.kill(1, 9)\n    os._exit(0)",
        {"signalled", "no_reply", "exception"},
    ),
    "stops_itself": ("import os\ndef f(x): os.kill(os.getpid(), 19)", {"timeout"}),
    "hangs": ("def f(x):\n    while True: pass", {"timeout"}),
    "hangs_at_import": ("import time\ntime.sleep(60)\n" + RIGHT, {"timeout"}),
    "hangs_holding_the_lock": ("def f(x): return 10 ** 10 ** 9", {"timeout", "exception", "oom"}),
    "floods": ("def f(x):\n    while True: print('passed ' * 1000)", {"output_limit", "timeout"}),
    "forks_for_ever": (
        "import os\ndef f(x):\n    while True:\n        try: os.fork()\n        except OSError: pass",
        {"timeout", "exception", "signalled"},
    ),
    "takes_all_memory": (
        "def f(x):\n    a = []\n    while True: a.append(bytearray(1 << 22))",
        {"oom", "exception", "timeout", "signalled"},
    ),
    "fills_the_disk": (
        "def f(x):\n    for n in range(1000):\n        with open(f'{n}', 'wb') as o: o.write(bytes(1 << 20))\n"
        "    return 0",
        {"exception", "timeout", "wrong_answer", "oom"},
    ),
    "recursion": ("def f(x): return f(x)", {"exception"}),
    "crash_of_the_interpreter": (
        "import sys, ctypes\ndef f(x): return ctypes.string_at(0)",
        {"signalled", "exit_code"},
    ),
    "endless_value": ("def f(x):\n    a = []\n    a.append(a)\n    return a", {"wrong_answer"}),
    "doubling_value": (
        "def f(x):\n    a = 1\n    for _ in range(90): a = [a, a]\n    return a",
        {"wrong_answer", "timeout", "exception"},
    ),
    "huge_text": ("def f(x): return 'x' * 9_000_000", {"wrong_answer"}),
    "nothing": ("", {"missing_function"}),
    "no_function": ("f = 2", {"missing_function"}),
    "no_python": ("def f(x:", {"load_error"}),
    "zero_byte": (RIGHT + "\0", {"load_error"}),
    "lone_surrogate": (RIGHT + "# \ud800", {"load_error"}),
    "reads_input_at_import": ("n = input()\n" + RIGHT, {"load_error"}),
    "loads_for_ever": (RIGHT + "#" * (1 << 20), {"load_error"}),
    "closed_descriptors": (
        "import os\ndef f(x):\n    os.closerange(0, 256)\n    return 2 * x",
        {"exit_code"},
    ),
    "limit_on_itself": (
        "import resource\ndef f(x):\n    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n    return x",
        {"wrong_answer"},
    ),
    "leaves_for_a_child": (
        FIND_REPLY + "import time\ndef f(x):\n    if os.fork():\n        os._exit(0)\n"
        "    os.setsid()\n    time.sleep(0.3)\n    forge(frame(2 * x))\n    time.sleep(60)",
        {"no_reply"},
    ),
    "first_answer_for_all": (
        "import os\nTOPS = ('.', '/tmp', '/dev/shm', '/var/tmp')\ndef f(x):\n"
        "    if any(os.path.exists(top + '/seen') for top in TOPS): return 2 * x\n    for top in TOPS:\n"
        "        try: open(top + '/seen', 'w').close()\n        except OSError: pass\n    return 0",
        {"wrong_answer"},
    ),
    "hook_left_for_the_next_case": (
        "import os\ndef f(x):\n    for name in ('sitecustomize.py', 'usercustomize.py', 'marshal.py', 'struct.py',\n"
        "                 'collections.py', 'builtins.py', 'candidate.py', 'grading.py'):\n"
        "        with open(name, 'w') as o: o.write('import os; os._exit(0)')\n    return 0",
        {"wrong_answer"},
    ),
    "patches_comparisons": (
        "import operator, math, unittest, builtins\noperator.eq = lambda a, b: True\n"
        "math.isclose = lambda *a, **k: True\n"
        "unittest.TestCase.assertEqual = lambda *a: None\nbuiltins.all = builtins.any = lambda *a: True\n"
        "def f(x): return 0",
        {"wrong_answer"},
    ),
    "patches_warnings_and_asserts": (
        "import builtins\nbuiltins.AssertionError = type('A', (Exception,), {})\nbuiltins.__debug__ if 1 else 0\n"
        "def f(x): return None",
        {"wrong_answer"},
    ),
    "trace_that_changes_the_result": (
        "import sys\ndef trace(frame, event, arg):\n"
        "    if 'reply' in frame.f_locals: frame.f_locals['reply'] = ('passed',)\n"
        "    return trace\ndef f(x):\n    sys.settrace(trace)\n    return 1",
        {"wrong_answer"},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile(name: str, grader: Grader) -> None:
    source, reasons = HOSTILE[name]
    began = time.monotonic()
    verdict = await grader.grade(DOUBLE, source)
    assert verdict.score == 0.0
    assert verdict.passed <= 1
    assert {case.reason for case in verdict.cases if not case.passed} <= reasons, verdict
    assert time.monotonic() - began < 30
    assert all(len(case.detail) <= 2100 for case in verdict.cases)
    after = await grader.grade(DOUBLE, RIGHT)
    assert after.score == 1.0, after


AWKWARD = {
    "plain": RIGHT,
    "module_with_everything_patched": (
        "import builtins, os, sys, json, struct, marshal, collections, threading, time, gc\n"
        "def broken(*a, **k): raise RuntimeError('patched')\n"
        "def f(x): return 2 * x\n"
        "each, names, put = vars, list, setattr\n"
        "for module in (os, json, struct, marshal, collections, threading, time, gc):\n"
        "    for name in names(each(module)):\n"
        "        if not name.startswith('__'): put(module, name, broken)\n"
        "modules = each(sys)['modules']\n"
        "for name in names(each(builtins)):\n"
        "    if not name.startswith('__'): put(builtins, name, broken)\n"
        "modules.clear()\n"
    ),
    "built_in_of_its_own": "import builtins\nbuiltins.twice = lambda x: 2 * x\ndef f(x): return twice(x)",
    "no_built_ins": "import builtins\ndef f(x): return 2 * x\nvars(builtins).clear()",
    "streams_closed": "import sys\nsys.stdout.close()\nsys.stderr = sys.stdin = None\n" + RIGHT,
    "low_recursion_limit": "import sys\ndef f(x):\n    sys.setrecursionlimit(30)\n    return 2 * x",
    "trace_left_on": "import sys\ndef trace(*a): return trace\nsys.settrace(trace)\nsys.setprofile(trace)\n"
    + RIGHT,
    "trace_that_raises_elsewhere": (
        "import sys\ndef trace(frame, event, arg):\n"
        "    if frame.f_code.co_filename != '<candidate>': raise ValueError\n"
        "def f(x):\n    sys.settrace(trace)\n    return 2 * x"
    ),
    "alarm_left_on": (
        "import signal, sys\nsignal.signal(signal.SIGALRM, lambda *a: sys.exit(1))\nsignal.alarm(1)\n" + RIGHT
    ),
    "threads_left_over": "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    + RIGHT,
    "process_left_over": "import subprocess\nsubprocess.Popen(['sleep', '60'])\n" + RIGHT,
    "exit_functions": "import atexit, os\natexit.register(os._exit, 3)\n" + RIGHT,
    "fork_that_returns_too": "import os\ndef f(x):\n    os.fork()\n    return 2 * x",
    "descriptor_three_closed": "import os\ntry: os.close(3)\nexcept OSError: pass\n" + RIGHT,
    "frozen_clock": "import time\ntime.time = time.monotonic = time.perf_counter = lambda: 0.0\n" + RIGHT,
    "annotations_and_dataclass": (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    n: int\n"
        "def f(x: Nowhere) -> Nothing: return P(2 * x).n"
    ),
    "pickles_itself": "import pickle\nclass A: pass\ndef f(x):\n    pickle.loads(pickle.dumps(A()))\n    return 2 * x",
    "cached": "from functools import lru_cache\n@lru_cache\ndef f(x): return 2 * x",
    "partial": "from functools import partial\nimport operator\nf = partial(operator.mul, 2)",
    "callable_object": "class F:\n    def __call__(self, x): return 2 * x\nf = F()",
    "asyncio": "import asyncio\nasync def g(x): return 2 * x\ndef f(x): return asyncio.run(g(x))",
    "main_guard": RIGHT + "if __name__ == '__main__':\n    raise SystemExit(1)\n",
    "collector_off": "import gc\ngc.disable()\ngc.freeze()\n" + RIGHT,
    "name_of_the_runner": "def call(*a): return 1\nencode = parse = build = call\n" + RIGHT,
    "main_replaced": "import sys\nsys.modules['__main__'].__dict__.clear()\n" + RIGHT,
    "exception_handled": "def f(x):\n    try: 1 / 0\n    except ZeroDivisionError: return 2 * x",
    "other_folder": "import os\nos.chdir('/')\n" + RIGHT,
}


@pytest.mark.parametrize("name", AWKWARD)
async def test_awkward_but_right(name: str, grader: Grader) -> None:
    verdict = await grader.grade(DOUBLE, AWKWARD[name])
    assert verdict.score == 1.0, verdict


@pytest.mark.parametrize(
    "place",
    [
        "[s for o in gc.get_objects() for s in strings(o)]",
        "[s for f in frames() for v in (f.f_locals, f.f_globals) for s in strings(v)]",
        "list(os.environ.values()) + sys.argv + sys.orig_argv + [sys.stdin.read()]",
        "[content(os.path.join(r, n)) for t in ('.', '/tmp', '/dev/shm', '/proc/self') "
        "for r, _, ns in os.walk(t) for n in ns]",
        "memory()",
    ],
    ids=["objects", "frames", "environment", "files", "memory"],
)
async def test_expected_values_are_nowhere_in_the_sandbox(place: str, grader: Grader) -> None:
    source = f"""
import gc, os, sys, re
def content(path):
    if not os.path.isfile(path): return ""
    try: return open(path, errors="replace").read(1 << 16)
    except OSError: return ""
def strings(o):
    items = list(o.values()) if isinstance(o, dict) else list(o) if isinstance(o, (list, tuple, set)) else [o]
    return [s.decode("latin-1") if isinstance(s, bytes) else s for s in items if isinstance(s, (str, bytes))]
def frames():
    f = sys._getframe()
    while f:
        yield f
        f = f.f_back
def memory():
    found = []
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as mem:
        for line in maps:
            first, last = (int(n, 16) for n in line.split()[0].split("-"))
            if "rw" in line:
                try:
                    mem.seek(first)
                    found.append(mem.read(min(last - first, 1 << 24)).decode("latin-1"))
                except (OSError, ValueError, OverflowError): pass
    return found
def f(key):
    seen = {{m for text in {place} for m in re.findall("hid" + "den-[0-9a-f]{{8}}|visi" + "ble-[0-9a-f]{{8}}", text)}}
    return sorted(seen)
"""
    cases = tuple(Case((f"visible-{n:08x}",), expected=f"hidden-{n:08x}") for n in (1, 2))
    verdict = await grader.grade(FunctionTask("f", cases, limits=Limits(wall_s=10)), source)
    for n, case in enumerate(verdict.cases, start=1):
        assert case.reason == "wrong_answer", case
        assert "hidden" not in case.detail
        if place == "memory()":  # the search finds what is there: this case's input, and no other's
            assert case.detail == f"returned ['visible-{n:08x}']"


async def test_each_case_finds_an_empty_sandbox(grader: Grader) -> None:
    source = (
        "import os\ndef f(x):\n    seen = sum(len(os.listdir(t)) for t in ('.', '/tmp'))\n"
        "    for t in ('.', '/tmp'): open(f'{t}/left-{x}', 'w').close()\n    return seen"
    )
    task = FunctionTask("f", tuple(Case((x,), expected=0) for x in range(8)))
    assert (await grader.grade(task, source)).score == 1.0


async def test_inputs_and_values_of_every_type(grader: Grader) -> None:
    values: list[Any] = [
        None, True, 0, -1, 1 << 900, 0.5, math.nan, math.inf, 1j, "", "a\0\ud800\U0001f600", b"\xff", bytearray(b"x"),
        [], [1, [2]], (), (1,), set(), {1, "a"}, frozenset({(1, 2)}), {}, {1: {2: [3]}, (1,): None, b"k": 1},
    ]  # fmt: skip
    task = FunctionTask(
        "f", tuple(Case((value,), {"again": value}, expected=[value, value]) for value in values)
    )
    verdict = await grader.grade(task, "def f(x, *, again): return [x, again]")
    assert verdict.score == 1.0, verdict


async def test_a_low_recursion_limit_does_not_hurt_a_deep_value(grader: Grader) -> None:
    value: list[Any] = []
    for _ in range(80):
        value = [value]
    source = "import sys\ndef f(x):\n    sys.setrecursionlimit(20)\n    return x"
    assert (await grader.grade(FunctionTask("f", (Case((value,), expected=value),)), source)).score == 1.0


async def test_a_method_is_called_on_a_new_instance(grader: Grader) -> None:
    task = FunctionTask("Solution.twice", (Case((2,), expected=4),))
    source = "class Solution:\n    def __init__(self): self.k = 2\n    def twice(self, x): return self.k * x"
    assert (await grader.grade(task, source)).score == 1.0
    assert (await grader.grade(task, "class Solution: pass")).reasons == ("missing_function",)
    assert (await grader.grade(task, "def twice(x): return 2 * x")).reasons == ("missing_function",)


async def test_rules_reach_the_comparison(grader: Grader) -> None:
    third = (Case((1,), expected=1 / 3),)
    source = "def f(x): return x * 0.33333333"
    assert (await grader.grade(FunctionTask("f", third), source)).score == 0.0
    assert (await grader.grade(FunctionTask("f", third, Rules(abs_tol=1e-6)), source)).score == 1.0
    pair = (Case((1,), expected=[1, 1]),)
    assert (await grader.grade(FunctionTask("f", pair), "def f(x): return x, x")).score == 0.0
    assert (
        await grader.grade(FunctionTask("f", pair, Rules(sequences=True)), "def f(x): return x, x")
    ).score == 1.0


async def test_a_value_as_large_as_allowed(grader: Grader) -> None:
    source = "def f(n): return 'x' * n"
    fits, too_large = MAX_REPLY - 20, MAX_REPLY
    task = FunctionTask(
        "f", (Case((fits,), expected="x" * fits), Case((too_large,), expected="x" * too_large))
    )
    assert (await grader.grade(task, source)).reasons == ("passed", "wrong_answer")


async def test_all_cases_together_have_a_time(grader: Grader) -> None:
    cases = tuple(Case((0,), expected=0) for _ in range(6))
    task = FunctionTask("f", cases, limits=LIMITS, total_wall_s=1.0)
    verdict = await grader.grade(task, "import time\ndef f(x):\n    time.sleep(0.4)\n    return x")
    assert verdict.reasons[0] == "passed"
    assert verdict.reasons[2:] == ("timeout",) * 4
    assert verdict.score == 0.0


async def test_it_can_stop_at_the_first_failure(grader: Grader) -> None:
    task = FunctionTask("f", tuple(Case((x,), expected=x) for x in range(6)), limits=LIMITS)
    verdict = await grader.grade(task, "def f(x): return x if x < 2 else -1", stop_at_failure=True)
    assert verdict.reasons == ("passed", "passed", "wrong_answer", "not_run", "not_run", "not_run")
    assert (verdict.passed, verdict.total, verdict.score) == (2, 6, 0.0)


async def test_many_candidates_at_once(grader: Grader) -> None:
    sources = [RIGHT if n % 2 else "def f(x): return 3 * x" for n in range(10)]
    verdicts = await asyncio.gather(*(grader.grade(DOUBLE, source) for source in sources))
    assert [verdict.score for verdict in verdicts] == [float(n % 2) for n in range(10)]


async def test_admission(grader: Grader) -> None:
    assert (await grader.admit(DOUBLE, RIGHT)).score == 1.0
    with pytest.raises(TaskRefused, match="case 0: wrong_answer"):
        await grader.admit(DOUBLE, "def f(x): return x")
    with pytest.raises(TaskRefused, match="stub"):
        await grader.admit(FunctionTask("f", (Case((1,), expected=None),)), "def f(x): return None")
    with pytest.raises(TaskRefused, match="stub"):
        await grader.admit(DOUBLE, RIGHT, stub=RIGHT)
    method = FunctionTask("S.f", (Case((1,), expected=None),))
    with pytest.raises(TaskRefused, match="stub"):
        await grader.admit(method, "class S:\n    def f(self, x): pass")


async def test_a_task_holds_plain_values() -> None:
    with pytest.raises(ValueError, match="no cases"):
        FunctionTask("f", ())
    with pytest.raises(ValueError, match=r"case 0 .* no plain value"):
        FunctionTask("f", (Case((len,), expected=1),))
    with pytest.raises(ValueError, match=r"case 1 .* no plain value"):
        FunctionTask("f", (Case((1,), expected=1), Case((1,), expected=[object()])))
    with pytest.raises(ValueError, match="at least one case"):
        Verdict(())


async def test_the_interpreter_can_start_cold() -> None:
    backend = NamespaceBackend(NamespaceConfig(warm=False))
    try:
        assert (await Grader(backend, at_once=2).grade(DOUBLE, RIGHT)).score == 1.0
    finally:
        await backend.close()
