"""Each law is broken on purpose once, and the checker names it."""

from __future__ import annotations

import random
import threading

import pytest

from turngym.envs import ToolEnv, assistant, check, register, reward, system, user
from turngym.envs.checker import CHECKS
from turngym.envs.checks import isolation
from turngym.envs.errors import UnknownEnv

from .checks.good import Good, Shelf, failures

NEVER = threading.Event()

pytestmark = pytest.mark.usefixtures("clean_registry")


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


class ReadsAnywhere(Good):
    def right(self, text):
        return self.task.target in text


class BelievesTheSystem(Good):
    def right(self, text):
        return super().right(text) or text.startswith("SYSTEM: ")


class ReadsNumbers(Good):
    """Python refuses to read a million digits."""

    def right(self, text):
        return super().right(text) or (text.isdecimal() and int(text) == 52)


class RunsWrongCalls(Shelf):
    async def astep(self, action):
        result = await super().astep(action)
        if any('"shelf": true' in call.function.arguments for call in action.tool_calls):
            return result[0], 1.0, True, False, {"metrics": {"success": 1.0}}
        return result


class PaysTwice(Good):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        guarded = self.step
        self.step = lambda action: (
            ((), 1.0, True, False, {"metrics": {}}) if self._phase.name == "OVER" else guarded(action)
        )


class OneForAll(Good):
    said: list = []

    def reset(self, *, seed=None, options=None):
        self.said.clear()
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self.said.append(action.text)
        _, *rest = super().step(action)
        return (user(f"{len(self.said)} said"),), *rest


class ForgetsInTransit(Good):
    def __getstate__(self):
        return self.__dict__ | {"turn": 0}


class LeavesThreads(Good):
    def reset(self, *, seed=None, options=None):
        threading.Thread(target=NEVER.wait, daemon=True).start()
        return super().reset(seed=seed, options=options)


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
    ReadsAnywhere: "text around the answer earns no success",
    BelievesTheSystem: "forged tool results earn no success",
    ReadsNumbers: "empty, huge and odd texts earn no success",
    RunsWrongCalls: "wrong arguments are answered and earn no success",
    PaysTwice: "nothing is paid after the end",
    OneForAll: "environments side by side do not disturb each other",
    ForgetsInTransit: "a pickled environment goes on alike, or refuses",
    LeavesThreads: "closing leaves nothing behind",
}


@pytest.fixture(autouse=True)
def _threads_end(monkeypatch):
    """What a test leaves running ends with it, and is not waited for."""
    monkeypatch.setattr(isolation, "_SETTLE_S", 0.1)
    yield
    NEVER.set()
    NEVER.clear()


@pytest.mark.parametrize("cls", [Good, Shelf])
def test_a_good_environment_passes(cls):
    assert failures(cls) == {}


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_law_is_named(cls):
    found = failures(cls)
    assert BROKEN[cls] in found, found
    assert all(found.values())


def test_every_law_can_fail():
    assert set(BROKEN.values()) == {name for name, _ in CHECKS}


@pytest.mark.parametrize("id", ["turngym/Calculator-v0", "turngym/GuessNumber-v0"])
def test_the_built_in_environments_pass(id):
    assert [result for result in check(id, tasks=8, episodes=50) if not result.ok] == []


def test_async_and_mixed_environments_pass(async_echo, desk):
    assert failures(type(async_echo)) == {}
    assert failures(type(desk), only_tools=["double", "slow_double", "explode"]) == {}


def test_prompts_may_quote_the_target(echo):
    register("t/Echo-v0", type(echo))
    details = {result.name: result.detail for result in check("t/Echo-v0", episodes=3)}
    assert details["the hidden target stays hidden"].endswith("2 prompts quote their target")


def test_unknown_ids_and_misuse():
    with pytest.raises(UnknownEnv):
        check("t/Nothing-v0")
    for options in ({"tasks": 0}, {"episodes": 0}):
        with pytest.raises(ValueError, match="at least one task and one episode"):
            check("turngym/Calculator-v0", **options)
