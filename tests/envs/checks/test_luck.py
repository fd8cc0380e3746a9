"""Where luck decides too, the expert is compared with the exact optimum instead of being asked to win every time."""

from __future__ import annotations

import pytest

from turngym.envs import Env, assistant, check, questions, register, user
from turngym.envs.policies import Optimum

pytestmark = pytest.mark.usefixtures("clean_registry")
LAW = "the expert reaches the maximum"


class Coin(Env):
    """Call a biased coin: heads comes up with probability 0.7."""

    tasks = questions(train={"One?": 1, "Two?": 2}, test={"Three?": 3})
    reward_range = (0.0, 1.0)
    is_stochastic = True

    def step(self, action):
        face = "heads" if self.np_random.random() < 0.7 else "tails"
        right = float(action.text == face)
        return (user(face),), right, True, False, {"metrics": {"success": right}}

    def optimum(self, task):
        return Optimum(0.7, 0.21**0.5)

    @staticmethod
    def expert(task, history, rng):
        return assistant("heads")


class CallsTails(Coin):
    @staticmethod
    def expert(task, history, rng):
        return assistant("tails")


class Boasts(Coin):
    """Says that more can be had than can be."""

    def optimum(self, task):
        return Optimum(1.0, 0.1)


class SaysNothing(Coin):
    optimum = Env.optimum


class NeverEnds(Coin):
    def step(self, action):
        return (), 0.0, False, False, {}


def found(cls, tasks=8):
    register(f"t/{cls.__name__}-v0", cls)
    return next(result for result in check(f"t/{cls.__name__}-v0", tasks=tasks) if result.name == LAW)


def test_an_optimal_expert_passes_though_it_loses_now_and_then():
    result = found(Coin)
    assert result.ok, result.detail
    assert result.detail.startswith("48 episodes, mean reward 0.")
    assert "exact optimum 0.7 ± 0.26" in result.detail


@pytest.mark.parametrize(
    ("cls", "why"),
    [
        (CallsTails, "the expert is not optimal"),
        (Boasts, "the expert is not optimal"),
        (SaysNothing, "does not say what the best policy earns"),
        (NeverEnds, "did not finish task train-0 in 1000 turns"),
    ],
)
def test_others_do_not(cls, why):
    result = found(cls)
    assert not result.ok
    assert why in result.detail


def test_without_the_declaration_every_episode_must_succeed():
    class Certain(CallsTails):
        is_stochastic = False

    assert "the expert failed on task" in found(Certain).detail
