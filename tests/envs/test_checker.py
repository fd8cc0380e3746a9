"""Each law is broken on purpose once, and the checker names it."""

from __future__ import annotations

import random

import pytest

from turngym.envs import Env, ToolEnv, assistant, check, questions, register, reward, system, user
from turngym.envs.checker import CHECKS
from turngym.envs.errors import UnknownEnv

pytestmark = pytest.mark.usefixtures("clean_registry")


class Good(Env):
    """Say the word."""

    tasks = questions(train={"First?": "reddish", "Second?": "bluish"}, test={"Third?": "greenish"})
    reward_range = (0.0, 1.0)

    def reset(self, *, seed=None, options=None):
        self.turn = 0
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.turn += 1
        right = action.text == self.task.target
        over = right or self.turn == 3
        return (
            (user("no"),),
            float(right),
            over,
            False,
            {"metrics": {"success": float(right)}} if over else {},
        )

    @staticmethod
    def expert(task, history, rng):
        return assistant(task.target)


class BothFlags(Good):
    def step(self, action):
        return (), 0.0, True, True, {}


class ReusesInfo(Good):
    info: dict = {}

    def step(self, action):
        return *super().step(action)[:4], self.info


class GlobalNoise(Good):
    def step(self, action):
        _, *rest = super().step(action)
        return (user(str(random.random())),), *rest


class CountsResets(Good):
    resets = 0

    def reset(self, *, seed=None, options=None):
        self.resets += 1
        prompt, info = super().reset(seed=seed, options=options)
        return (*prompt, user(f"episode {self.resets}")), info


class SharedState(Good):
    shared = ("said",)

    def reset(self, *, seed=None, options=None):
        self.said = []
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.said.append(action.text)
        _, *rest = super().step(action)
        return (user(f"{len(self.said)} said"),), *rest


class TwoMinds(Good):
    async def astep(self, action):
        return (user("async"),), *super().step(action)[1:]

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.step = lambda action: Good.step(self, action)


class Unanswered(ToolEnv):
    tasks = Good.tasks
    expert = Good.expert

    async def astep(self, action):
        return (), 0.0, True, False, {"metrics": {"success": float(action.text == self.task.target)}}

    @reward
    def correct(self, answer, target) -> float:
        return float(answer == target)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.tools = ("pretend",)


class NoExpert(Good):
    expert = None


class PoorExpert(Good):
    @staticmethod
    def expert(task, history, rng):
        return assistant("wrong")


class PaysSilence(Good):
    def step(self, action):
        return (), 1.0, True, False, {"metrics": {"success": 1.0}}


class LeaksInPrompt(Good):
    def reset(self, *, seed=None, options=None):
        prompt, info = super().reset(seed=seed, options=options)
        return (system(f"Hint: {self.task.target}"), *prompt), info


class LeaksLater(Good):
    def step(self, action):
        _, *rest = super().step(action)
        return (user(f"no, it is {self.task.target}"),), *rest


class BigReward(Good):
    def step(self, action):
        observation, paid, *rest = super().step(action)
        return observation, paid * 7, *rest


class SecretTask(Good):
    def reset(self, *, seed=None, options=None):
        prompt, info = super().reset(seed=seed, options=options)
        return prompt, {**info, "task": self.task}


class Fragile(Good):
    def step(self, action):
        if action.text.startswith("no"):
            raise KeyError(action.text)
        return super().step(action)


class ClosesOnce(Good):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.close = iter([None]).__next__


class OverlappingTasks:
    splits = ("train", "test")

    def size(self, split):
        return 2

    def at(self, split, index):
        return Good.tasks.at("train", index)

    def get(self, task_id):
        return Good.tasks.get(task_id)


class Overlap(Good):
    tasks = OverlappingTasks()


BROKEN = {
    BothFlags: "terminated and truncated never both",
    ReusesInfo: "gymnasium's own checker passes",
    GlobalNoise: "same seed, same actions, same episode",
    CountsResets: "the seed alone decides",
    SharedState: "a fork goes the same way and disturbs nothing",
    TwoMinds: "both faces agree",
    Unanswered: "malformed calls are answered, each of them",
    NoExpert: "the expert reaches the maximum",
    PoorExpert: "the expert reaches the maximum",
    PaysSilence: "saying nothing earns no success",
    LeaksInPrompt: "the hidden target stays hidden",
    LeaksLater: "the hidden target stays hidden",
    BigReward: "rewards stay in the declared range",
    SecretTask: "reset and step tell what they must",
    Fragile: "random play raises nothing",
    ClosesOnce: "closing twice is harmless",
    Overlap: "splits share no task",
}


def failures(cls, **kwargs) -> dict[str, str]:
    id = f"t/{cls.__name__}-v0"
    register(id, cls, kwargs=kwargs)
    return {result.name: result.detail for result in check(id, tasks=2) if not result.ok}


def test_a_good_environment_passes():
    assert failures(Good) == {}


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_law_is_named(cls):
    found = failures(cls)
    assert BROKEN[cls] in found, found
    assert all(found.values())


def test_every_law_can_fail():
    assert set(BROKEN.values()) == {name for name, _ in CHECKS}


@pytest.mark.parametrize("id", ["turngym/Calculator-v0", "turngym/GuessNumber-v0"])
def test_the_built_in_environments_pass(id):
    assert [result for result in check(id, tasks=8) if not result.ok] == []


def test_async_and_mixed_environments_pass(async_echo, desk):
    assert failures(type(async_echo)) == {}
    assert failures(type(desk), only_tools=["double", "slow_double", "explode"]) == {}


def test_prompts_may_quote_the_target(echo):
    register("t/Echo-v0", type(echo))
    details = {result.name: result.detail for result in check("t/Echo-v0")}
    assert details["the hidden target stays hidden"].endswith("2 prompts quote their target")


def test_unknown_ids_and_misuse():
    with pytest.raises(UnknownEnv):
        check("t/Nothing-v0")
    with pytest.raises(ValueError, match="at least one task"):
        check("turngym/Calculator-v0", tasks=0)
