import asyncio

import numpy as np
import pytest

from turngym.envs import ToolCall, assistant, check, make
from turngym.envs.builtin.code.python_tool import PythonTool, expert, random_code
from turngym.envs.tasks import iterate
from turngym.evaluation.runner import evaluate
from turngym.sandboxes.errors import TooWeak
from turngym.sandboxes.service import close_services

ID = "turngym/PythonTool-v0"
pytestmark = pytest.mark.usefixtures("namespaces")


def call(code):
    return assistant(None, ToolCall.of("python", {"code": code}))


def test_variables_survive_and_the_answer_is_graded():
    env = make(ID)
    env.reset(seed=1)
    env.step(call("x = 41"))
    assert env.step(call("x + 1"))[0][0].text == "42"
    _, reward, over, _, info = env.step(f"The answer is {env.task.target}.")
    assert (reward, over, info["metrics"]) == (1.0, True, {"success": 1.0, "calls": 2.0, "errors": 0.0})
    env.reset(seed=1)
    assert "NameError" in env.step(call("x"))[0][0].text
    env.close()


@pytest.mark.parametrize(
    "answer",
    ["", "{0} or {0}", "The answer is {0}. The answer is {0}.", "It is {0}", "{0}.0", "1{0}", "−{0}", "nan"],
)
def test_only_the_integer_counts(answer):
    env = make(ID)
    env.reset(seed=2)
    assert env.step(answer.format(env.task.target))[1] == 0.0
    env.close()


def test_there_are_ten_thousand_different_questions_and_none_in_both_splits():
    tasks = PythonTool().tasks
    seen = {split: {task.prompt for task in iterate(tasks, split, 6000)} for split in tasks.splits}
    assert len(seen["train"] | seen["test"]) >= 10_000
    assert not seen["train"] & seen["test"]


def test_a_backend_that_isolates_nothing_is_refused_unless_it_is_asked_for():
    env = make(ID, sandbox="subprocess")
    env.reset(seed=0)
    with pytest.raises(TooWeak, match="subprocess"):
        env.step(call("1"))
    with pytest.raises(ValueError, match="kinds are some of"):
        make(ID, kinds=["poems"])


def test_episodes_side_by_side_get_the_same_as_alone():
    assert evaluate(ID, "expert", tasks=40, concurrency=16).success.mean == 1.0
    close_services()


async def test_random_play_raises_nothing_and_leaves_no_sandbox():
    envs = [make(ID, split="test") for _ in range(8)]

    async def play(env, first):
        for number in range(first, first + 25):
            task = env.tasks.at("test", number)
            await env.areset(seed=number, options={"task": task})
            rng, over = np.random.default_rng(number), False
            while not over:
                _, reward, over, *_ = await env.astep(random_code(task, tuple(env.history), rng))
                assert reward in (0.0, 1.0)
        assert env._interpreter._calls._live is None

    await asyncio.gather(*(play(env, 25 * number) for number, env in enumerate(envs)))


def test_the_expert_says_what_its_program_printed():
    env = make(ID)
    env.reset(seed=5)
    first = expert(env.task, tuple(env.history), None)
    env.step(first)
    assert expert(env.task, tuple(env.history), None).text == f"The answer is {env.task.target}."
    env.close()


def test_it_keeps_the_laws():
    assert [result for result in check(ID) if not result.ok] == []
