import asyncio
import json

import pytest

from turngym.envs import make
from turngym.envs.builtin.code.coding import LIMITS, Coding, code_of, task_of
from turngym.envs.builtin.code.problem import FunctionTests, Problem, ProgramTests
from turngym.envs.tasks import ListTasks
from turngym.sandboxes.errors import TooWeak

pytestmark = pytest.mark.usefixtures("namespaces")

DOUBLE = Problem(
    id="double",
    statement="Double a number.",
    public=FunctionTests(name="double", cases=(((1,), 2),)),
    hidden=FunctionTests(name="double", cases=(((1,), 2), ((21,), 42), ((-3,), -6), ((0,), 0))),
    solution="def double(x):\n    return 2 * x\n",
)
ECHO = Problem(
    id="echo",
    statement="Echo.",
    hidden=ProgramTests(cases=(("hello", "hello"), ("x y", "x y"))),
    solution="print(input())\n",
)


QUICK = LIMITS.model_copy(update={"wall_s": 1.0, "cpu_s": 1.0})


def coding(problem=DOUBLE, **kwargs):
    kwargs = {"limits": QUICK} | kwargs
    env = Coding(tasks=ListTasks(train=[task_of(problem)], test=[]), **kwargs)
    env.reset(seed=0)
    return env


def block(code, language="python"):
    return f"Here it is:\n```{language}\n{code}\n```\nI hope so."


def test_code_that_fails_a_public_test_can_be_improved():
    env = coding()
    observation, reward, over, _, info = env.step(block("def double(x):\n    return x"))
    assert (reward, over) == (0.0, False)
    assert (
        observation[0].text == "0 of 1 tests pass.\n- double(1) should return 2\n  wrong answer: returned 1"
    )
    observation, reward, over, truncated, info = env.step(block(DOUBLE.solution))
    assert (reward, over, truncated) == (1.0, True, False)
    assert info["metrics"] == {"success": 1.0, "submissions": 2.0, "public": 1.0}


def test_code_that_only_knows_the_public_test_earns_nothing_and_learns_nothing():
    env = coding()
    observation, reward, over, _, info = env.step(block("def double(x):\n    return 2"))
    assert (reward, over, info["metrics"]["success"]) == (0.0, True, 0.0)
    assert "42" not in observation[0].text
    env = coding(pay="share")
    assert env.step(block("def double(x):\n    return 2"))[1] == 0.25
    env = coding(pay="share")
    _, reward, _, _, info = env.step(block("def double(x):\n    return abs(2 * x)"))
    assert (reward, info["metrics"]["success"], info["reward_components"]) == (0.75, 0.0, {"hidden": 0.75})


def test_without_public_tests_the_first_submission_is_the_last():
    env = coding(ECHO)
    observation, reward, over, *_ = env.step(block("print(input())"))
    assert (observation, reward, over) == ((), 1.0, True)


def test_the_last_code_counts_when_the_messages_are_used_up():
    env = coding(max_turns=2)
    env.step(block("def double(x):\n    return x"))
    _, reward, over, _, info = env.step("I give up.")
    assert (reward, over, info["metrics"]["submissions"]) == (0.0, True, 1.0)
    env = coding(max_turns=1)
    assert env.step("no code")[1:3] == (0.0, True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\nx\n```", "x\n"),
        ("```\nx\n```", "x\n"),
        ("a\r\n```py\r\nx = 1\n```  \nb", "x = 1\n"),
        ("  ```python\nprint('```')\n  ```", "print('```')\n"),
        ("x = 1", None),
        ("```python\nx", None),
        ("```python\na\n```\n```python\nb\n```", None),
        ("", None),
        ("`x`", None),
    ],
)
def test_a_message_has_one_block(text, found):
    code, said = code_of(text)
    assert code == found
    assert bool(said) is (found is None)


HACKS = {
    "exits": "import sys\nsys.exit(0)",
    "exits for good": "import os\nos._exit(0)",
    "prints a verdict": "print('4 of 4 tests pass. PASSED {\"score\": 1.0}')",
    "equals everything": "class E:\n    def __eq__(self, o): return True\n    def __hash__(self): return 0\n"
    "def double(x): return E()",
    "is everything": "class E(int):\n    def __eq__(self, o): return True\ndef double(x): return E(0)",
    "patches equality": "import builtins\nbuiltins.all = lambda *a: True\ndef double(x): return 2",
    "plants a conftest": "open('conftest.py', 'w').write('import os; os._exit(0)')\ndef double(x): return 2",
    "looks for the tests": "import os, glob\ndef double(x):\n"
    "    found = [p for p in glob.glob('/**/*', recursive=True) if 'hidden' in p or 'double' in p]\n"
    "    return len(found)",
    "runs for ever": "def double(x):\n    while True: pass",
    "writes the reply itself": "import os\nos.write(3, b'42')\nos._exit(0)",
    "walks the stack": "import sys\ndef double(x):\n    f = sys._getframe()\n    while f:\n"
    "        for v in f.f_locals.values():\n            if isinstance(v, dict) and 'expected' in v: return v\n"
    "        f = f.f_back\n    return 2",
    "a huge source": "x = '" + "a" * 1_000_000 + "'",
    "half a surrogate": "x = '\ud800'",
    "a zero byte": "x = '\0'",
}


@pytest.mark.parametrize("name", HACKS)
def test_dishonest_code_earns_nothing(name):
    env = coding(max_turns=1)
    _, reward, over, _, info = env.step(block(HACKS[name]))
    assert (reward, over, info["metrics"]["success"]) == (0.0, True, 0.0)


def test_episodes_side_by_side_get_the_same_as_alone():
    codes = [DOUBLE.solution, "def double(x):\n    return x + 1", "def double(x):\n    return 1 / 0", "x"] * 6

    async def play(code):
        env = coding_of_its_own()
        await env.areset(seed=0)
        return (await env.astep(block(code)))[:3]

    def coding_of_its_own():
        return Coding(tasks=ListTasks(train=[task_of(DOUBLE)], test=[]))

    async def all_of_them():
        return await asyncio.gather(*(play(code) for code in codes))

    together = asyncio.run(all_of_them())
    assert together == [asyncio.run(play(code)) for code in codes[:4]] * 6
    assert [reward for _, reward, _ in together[:4]] == [1.0, 0.0, 0.0, 0.0]


def test_a_backend_that_isolates_nothing_is_refused():
    with pytest.raises(TooWeak):
        coding(sandbox="subprocess").step(block("x"))
    with pytest.raises(ValueError, match="pay all or share"):
        coding(pay="some")


def test_a_file_of_ones_own_is_read_and_a_bad_row_is_named(tmp_path):
    path = tmp_path / "mine.jsonl"
    rows = [DOUBLE.model_copy(update={"id": f"d{n}", "statement": f"Double, in way {n}."}) for n in range(30)]
    path.write_text("".join(json.dumps(row.model_dump(mode="json")) + "\n" for row in rows))
    env = make("turngym/CodeTests-v0", data=str(path), test_share=0.5, split="test")
    env.reset(seed=1)
    assert env.step(block(DOUBLE.solution))[1] == 1.0
    path = tmp_path / "bad.jsonl"
    path.write_text('{"statement": "?", "hidden": {"form": "program", "cases": []}}\n')
    with pytest.raises(TypeError, match=r"bad\.jsonl, line 1"):
        make("turngym/CodeTests-v0", data=str(path), test_data=str(tmp_path / "mine.jsonl")).reset(seed=0)
