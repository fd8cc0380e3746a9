"""Rewards that compare episodes: declared here, computed from what each episode hands out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from turngym.envs import Task, ToolEnv, questions, reward
from turngym.envs.episode import EpisodeView
from turngym.envs.errors import ContractError, GradingError, InfrastructureError, InvalidReward
from turngym.envs.group_rewards import VIEW_KEY, Group, group_values
from turngym.envs.rewards import Reward, Rewards
from turngym.sandboxes.async_bridge import run_inline

TASK = Task(id="t", prompt=(), target="x")
GROUP = Group("e", TASK, tuple(EpisodeView((), (), 1, (0.5, n), "x" * n) for n in range(3)))


def declared(function, **options):
    return Reward.of(reward(group=True, **options)(function))


def values(function, **options):
    return run_inline(group_values(declared(function, **options), GROUP))


def test_functions_get_what_they_name_in_the_order_of_the_members():
    seen = {}

    def nosy(task, target, answers, trajectories, rewards, extra=1):
        seen.update(locals())
        return [0.0, 0.5, 1.0]

    assert values(nosy) == [0.0, 0.5, 1.0]
    assert (seen["task"], seen["target"], seen["trajectories"]) == (TASK, "x", GROUP.views)
    assert (seen["answers"], seen["rewards"]) == (("", "x", "xx"), (0.5, 1.5, 2.5))


def test_any_listing_of_numbers_will_do():
    assert values(lambda answers: np.array([0.0, 1.0, 0.5])) == [0.0, 1.0, 0.5]
    assert values(lambda answers: (n / 2 for n in range(3))) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("result", [[0.0, 0.0], [0.0] * 4, 0.5, None, "abc", b"abc"])
def test_one_value_for_each_member(result):
    with pytest.raises(GradingError, match="not 3 numbers, one for each member of the group"):
        values(lambda answers: result)


@pytest.mark.parametrize("bad", [1.5, -0.1, math.nan, None, "1"])
def test_each_value_is_finite_and_in_range(bad):
    with pytest.raises(InvalidReward, match=r"of e returned"):
        values(lambda answers: [0.0, bad, 0.0])
    assert values(lambda answers: [-3, 0, 3], range=(-3, 3)) == [-3.0, 0.0, 3.0]


def test_a_failing_comparison_is_a_failure_of_the_verifier():
    with pytest.raises(GradingError, match="failed: ZeroDivisionError"):
        values(lambda answers: 1 / 0)

    async def down(answers):
        raise InfrastructureError("judge is down")

    with pytest.raises(InfrastructureError, match="judge is down"):
        values(down)


def test_declarations_make_sense():
    with pytest.raises(
        ContractError, match="names 'answer'; it can have task, target, trajectories, answers, rewards"
    ):
        declared(lambda answer: [])
    with pytest.raises(ContractError, match="names 'answers'; it can have task, target, answer"):
        Reward.of(lambda answers: [])
    with pytest.raises(ContractError, match="compares whole episodes"):
        declared(lambda answers: [], when="turn")

    class Method(ToolEnv):
        tasks = questions(train={"?": "x"})

        @reward(group=True)
        def compare(self, answers):
            return []

    with pytest.raises(ContractError, match="as a function or a static method"):
        Method()


def test_the_environment_declares_them_and_pays_none():
    async def rank(answers):
        return [0.0 for _ in answers]

    class Compared(ToolEnv):
        tasks = questions(train={"?": "x"})

        @reward
        def correct(self, answer, target) -> float:
            return float(answer == target)

        @reward(group=True, weight=5.0)
        @staticmethod
        def brevity(answers) -> list[float]:
            return [1.0 for _ in answers]

    env = Compared(rewards=[reward(group=True)(rank)])
    assert [one.name for one in env.group_rewards] == ["brevity", "rank"]
    assert (env.reward_range, env.native_async) == ((0.0, 1.0), False)
    env.reset(seed=0)
    _, paid, _, _, info = env.step("x")
    assert (paid, info["reward_components"]) == (1.0, {"correct": 1.0})
    assert info[VIEW_KEY].answer == "x"
    assert info[VIEW_KEY].paid == (1.0,)
    assert info["metrics"]["success"] == 1.0
    assert [one.name for one in Rewards(env.rewards.all).group] == ["brevity", "rank"]


def test_without_any_no_view_is_handed_out(desk):
    desk.reset(seed=0)
    assert VIEW_KEY not in desk.step("x")[4]
    assert desk.group_rewards == ()
