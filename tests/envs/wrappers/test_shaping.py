from __future__ import annotations

import math

import pytest

from turngym.envs import ToolCall, assistant, reward
from turngym.envs.errors import ContractError, GradingError, InvalidReward
from turngym.envs.formats import matches
from turngym.envs.wrappers import ShapedReward, TurnLimit

from .small import Sync


def shaped(function, *actions, core=None, **options):
    env = ShapedReward(core or Sync(), reward(**options)(function) if options else function)
    env.reset(seed=0, options={"task": "train-0"})
    return [env.step(action) for action in actions]


def test_in_every_turn():
    first, last = shaped(matches("[a-z]+"), "x1", "red", weight=0.5, when="turn", name="form")
    assert (first[1], first[4]["reward_components"]) == (0.0, {"right": 0.0, "form": 0.0})
    assert (last[1], last[4]["reward_components"]) == (1.5, {"right": 1.0, "form": 1.0})


def test_at_the_end_only_where_the_environment_terminates():
    def length(history) -> float:
        return len(history) / 10

    first, last = shaped(length, "x", "red")
    assert (first[1], last[1]) == (0.0, pytest.approx(1.5))
    assert last[4]["reward_components"] == {"right": 1.0, "length": 0.5}
    (cut,) = shaped(length, "x", core=TurnLimit(Sync(), 1))
    assert (cut[1], cut[3]) == (0.0, True)


def test_weight_0_is_a_metric_summed_over_the_turns():
    first, last = shaped(lambda action: 1.0, "x", "red", weight=0.0, when="turn", name="turns")
    assert "metrics" not in first[4]
    assert (last[1], last[4]["metrics"]) == (1.0, {"success": 1.0, "turns": 2.0})
    _, again = shaped(lambda action: 1.0, "x", "red", weight=0.0, when="turn", name="turns")
    assert again[4]["metrics"]["turns"] == 2.0


def test_functions_get_what_they_name():
    seen = {}

    def nosy(task, target, action, history, answer) -> float:
        seen.update(locals())
        return 0.0

    shaped(nosy, "red")
    assert (seen["task"].id, seen["target"], seen["answer"]) == ("train-0", "red", "red")
    assert [message.role for message in seen["history"]] == ["user", "assistant", "user"]
    shaped(reward(when="turn")(nosy), assistant("red", ToolCall.of("x", {})))
    assert seen["answer"] == ""


def test_values_are_checked():
    with pytest.raises(InvalidReward, match="'bad' of the wrapper of Sync returned nan"):
        shaped(lambda action: math.nan, "red", name="bad")
    with pytest.raises(GradingError, match="'worse' of the wrapper of Sync failed: ZeroDivisionError"):
        shaped(lambda action: 1 / 0, "red", name="worse")


def test_what_it_cannot_do_is_refused():
    async def slow(action) -> float:
        return 0.0

    with pytest.raises(ContractError, match="must be a plain function"):
        ShapedReward(Sync(), slow)
    with pytest.raises(ContractError, match="must be a plain function"):
        ShapedReward(Sync(), reward(group=True)(lambda task: [0.0]))
    with pytest.raises(
        ContractError, match="names 'state'; it can have action, answer, history, target, task"
    ):
        ShapedReward(Sync(), lambda state: 0.0)
