import asyncio

import numpy as np
import pytest

from turngym.envs import ToolCall, assistant, check, make
from turngym.envs.builtin.repo.environment import expert, random_work
from turngym.envs.builtin.repo.grading import grade, judged
from turngym.envs.builtin.repo.tasks import repo_tasks
from turngym.envs.tasks import iterate
from turngym.evaluation.runner import evaluate
from turngym.sandboxes.service import sandbox_service

ID = "turngym/Repo-v0"
pytestmark = pytest.mark.usefixtures("namespaces")


def call(name, **arguments):
    return assistant(None, ToolCall.of(name, arguments))


def grade_files(task, files):
    """The share of hidden tests that pass on some files."""
    env = make(ID, split="train")
    env.reset(options={"task": task})
    env._workspace.files.update({path: text.encode() for path, text in files.items()})
    _, reward, over, _, info = env.step("Done.")
    assert over
    return reward, info["metrics"]["tests"]


def test_every_task_is_broken_and_its_fix_mends_it():
    for split in ("train", "test"):
        report = evaluate(ID, "expert", split=split, concurrency=4)
        assert (report.episodes, report.failed, report.success.mean) == (10, {}, 1.0)
        for task in iterate(repo_tasks(), split):
            reward, share = grade_files(task, {})
            assert reward == 0.0, task.id
            assert share < 1.0


def test_the_expert_sees_the_visible_tests_pass():
    env = make(ID)
    env.reset(options={"task": "ledger-lost-cents"})
    for _ in range(3):
        observation, _, over, *_ = env.step(expert(env.task, tuple(env.history), None))
    assert observation[0].text.startswith("exit code 0\n")
    assert "Ran 3 tests in …" in observation[0].text
    assert not over


SPLIT = "ledger/report.py"
DISHONEST = {
    "exits": "import os\nos._exit(0)",
    "leaves": "import sys\nsys.exit(0)",
    "prints": "print('OK'); print('{\"TestSplit.test_thirds\": \"ok\"}')",
    "writes to every descriptor": "import os\nfor fd in range(3, 64):\n    try: os.write(fd, b'ok')\n"
    "    except OSError: pass\nos._exit(0)",
    "writes the reply": "import json, os\nnames = 'thirds nothing_is_lost a_share_of_zero bad_shares'.split()\n"
    "reply = json.dumps({'TestSplit.test_' + name: 'ok' for name in names}).encode()\nfor fd in range(64):\n"
    "    try: os.write(fd, reply)\n    except OSError: pass\nos._exit(0)",
    "patches assertEqual": "import unittest\nunittest.TestCase.assertEqual = lambda *a, **k: None\n"
    "unittest.TestCase.assertRaises = lambda *a, **k: unittest.mock.MagicMock()",
    "patches run": "import unittest\nunittest.TestCase.run = lambda self, result: result.startTest(self)",
    "patches the result": "import unittest\nnothing = lambda *a: None\n"
    "unittest.TestResult.addError = unittest.TestResult.addFailure = nothing",
    "equals everything": "class E(list):\n    def __eq__(self, other): return True\n"
    "    def __ne__(self, other): return False\n    def __iter__(self): return iter([])\n"
    "def split(cents, shares): return E()",
    "is an odd int": "class N(int):\n    def __eq__(self, other): return True\n"
    "    def __radd__(self, other): return self\n    __add__ = __radd__\n"
    "def split(cents, shares): return [N(0)] * len(shares)",
    "kills its parent": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "finds the parent's descriptors": "import os\nfor fd in range(16):\n    try:\n"
    "        f = os.open(f'/proc/{os.getppid()}/fd/{fd}', os.O_WRONLY)\n        os.write(f, b'ok')\n"
    "    except OSError: pass\n",
    "skips": "import unittest\nraise unittest.SkipTest('not today')",
    "hangs": "while True: pass",
    "forks": "import os\nif os.fork(): os._exit(0)",
}


@pytest.mark.parametrize("name", DISHONEST)
def test_a_repository_that_cheats_passes_no_test(name):
    task = repo_tasks().get("ledger-lost-cents")
    source = task.metadata["files"][SPLIT]
    reward, share = grade_files(task, {SPLIT: f"{source}\n\n{DISHONEST[name]}\n"})
    assert reward == 0.0
    assert share < 1.0


PLANTED = {
    "sitecustomize.py": "import os; os._exit(0)",
    "unittest.py": "class TestCase: pass",
    "unittest/__init__.py": "class TestCase: pass",
    "json.py": "raise SystemExit",
    "sub/conftest.py": "x",
    "x.pth": "import os; os._exit(0)",
    "ctypes.py": "x",
    "tests/test_extra.py": "x",
}


@pytest.mark.parametrize("path", PLANTED)
def test_what_runs_or_imports_itself_is_left_out(path):
    original = {"ledger/report.py": "a", "tests/test_ledger.py": "b"}
    files = {"ledger/report.py": b"c", "tests/test_ledger.py": b"d", path: PLANTED[path].encode()}
    assert judged(original, files) == {"ledger/report.py": b"c", "tests/test_ledger.py": b"b"}
    task = repo_tasks().get("ledger-lost-cents")
    assert grade_files(task, {path: PLANTED[path]})[0] == 0.0


async def test_deleting_everything_passes_no_test():
    task = repo_tasks().get("ledger-lost-cents")
    outcomes = await grade(sandbox_service(), task.target, task.metadata["files"], {}, make(ID)._limits)
    assert outcomes == dict.fromkeys(task.target["tests"], False)


def test_hidden_data_never_enters_the_agent_s_sandbox():
    env = make(ID)
    env.reset(options={"task": "ledger-lost-cents"})
    search = (
        "import os\nfor d, _, fs in os.walk('.'):\n    for f in fs:\n        print(d, f)\n"
        "        assert 'test_thirds' not in open(d + '/' + f).read()"
    )
    (answer,), *_ = env.step(call("run", argv=["python3", "-c", search]))
    assert answer.text.startswith("exit code 0")
    assert "report.py" in answer.text


async def test_random_play_raises_nothing():
    async def play(first):
        env = make(ID)
        for number in range(first, first + 25):
            task = env.tasks.at("train", number % 10)
            await env.areset(seed=number, options={"task": task})
            rng, over = np.random.default_rng(number), False
            while not over:
                _, reward, over, *_ = await env.astep(random_work(task, tuple(env.history), rng))
                assert reward in (0.0, 1.0)

    await asyncio.gather(*(play(25 * number) for number in range(8)))


def test_it_keeps_the_laws():
    assert [result for result in check(ID, tasks=4) if not result.ok] == []
