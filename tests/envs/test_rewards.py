from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs import reward
from turngym.envs.errors import ContractError, GradingError, InfrastructureError, InvalidReward
from turngym.envs.rewards import Reward, Rewards, class_rewards
from turngym.sandboxes.async_bridge import run_inline

ENV = SimpleNamespace(
    id="e",
    task=SimpleNamespace(target=5),
    answer="five",
    action="a",
    history=[1, 2],
    trajectory="view",
    state={"k": 1},
)


def value(function) -> float:
    return run_inline(Reward.of(function).value(ENV))


def constant(result, **options):
    @reward(**options)
    def it() -> float:
        return result

    return it


def test_functions_get_what_they_name():
    seen = {}

    def nosy(task, target, answer, action, history, trajectory, state, env, extra=7) -> float:
        seen.update(locals())
        return 0.5

    assert value(nosy) == 0.5
    assert seen["task"] is ENV.task
    assert (seen["target"], seen["answer"], seen["action"]) == (5, "five", "a")
    assert seen["trajectory"] == "view"
    assert (seen["history"], seen["state"], seen["env"], seen["extra"]) == ((1, 2), {"k": 1}, ENV, 7)


def test_naming_what_nobody_has_is_refused():
    def hopeful(oracle) -> float:
        return 1.0

    with pytest.raises(ContractError, match="names 'oracle'; it can have task, target, answer"):
        Reward.of(hopeful)


@pytest.mark.parametrize("result", [math.nan, math.inf, -0.01, 1.01, 1.5, None, "1", [1]])
def test_values_are_finite_and_in_range(result):
    with pytest.raises(InvalidReward, match="'it' of e returned"):
        value(constant(result))


@given(st.floats(0, 1))
def test_values_in_range_are_kept(result):
    assert value(constant(result)) == result


def test_own_ranges():
    assert value(constant(-3, range=(-3, 3))) == -3.0
    assert value(constant(True)) == 1.0
    with pytest.raises(InvalidReward):
        value(constant(3.1, range=(-3, 3)))


def test_law_10_a_failing_reward_is_not_a_zero():
    def broken() -> float:
        raise KeyError("no such thing")

    def outage() -> float:
        raise InfrastructureError("judge is down")

    with pytest.raises(GradingError, match="'broken' of e failed: KeyError") as caught:
        value(broken)
    assert isinstance(caught.value, InfrastructureError)
    with pytest.raises(InfrastructureError, match="judge is down"):
        value(outage)


def test_async_rewards():
    async def judged(answer) -> float:
        return 0.25

    assert Rewards([Reward.of(judged)]).is_async
    assert value(judged) == 0.25


def test_declarations_make_sense():
    with pytest.raises(ContractError, match="when is 'end' or 'turn', not 'final'"):
        Reward.of(reward(when="final")(lambda: 1.0))
    for options in ({"range": (1, 0)}, {"weight": math.inf}, {"range": (math.nan, 1)}):
        with pytest.raises(ContractError, match="make no sense"):
            Reward.of(constant(0, **options))
    with pytest.raises(ContractError, match="two rewards are called 'it'"):
        Rewards([Reward.of(constant(0)), Reward.of(constant(1))])


def test_total_range():
    rewards = Rewards(
        [
            Reward.of(constant(0, name="a", weight=2.0)),
            Reward.of(constant(0, name="b", weight=-0.5, range=(-1, 3))),
            Reward.of(constant(0, name="metric", weight=0.0, range=(0, math.inf))),
            Reward.of(constant(0, name="turn", weight=0.1, when="turn", range=(-1, 1))),
            Reward.of(constant(0, name="fee", weight=-1.0, when="turn", range=(1, 1))),
        ]
    )
    assert rewards.end_range == (-1.5, 2.5)
    low, high = rewards.total_range(4)
    assert low == pytest.approx(-1.5 - 0.4 - 4)
    assert high == pytest.approx(2.5 + 0.4 - 1)
    assert rewards.total_range(None) == (-math.inf, math.inf)


def test_class_rewards_follow_inheritance():
    class Base:
        @reward
        def a(self) -> float:
            return 0.0

        @reward
        def b(self) -> float:
            return 0.0

    class Sub(Base):
        @reward(weight=3)
        def a(self) -> float:
            return 1.0

        b = None

    (only,) = class_rewards(Sub)
    assert (only.name, only.weight, only.takes_env) == ("a", 3.0, True)
