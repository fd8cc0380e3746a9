"""The fuzzer of tool calls finds what it is there to find, and nothing here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from turngym.envs import ToolEnv, questions, reward, tool

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "fuzz_tool_calls.py"


@pytest.fixture(scope="module")
def fuzzer():
    spec = importlib.util.spec_from_file_location("fuzz_tool_calls", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def places(fuzzer):
    return fuzzer.arenas(fuzzer.IDS, seed=1)


def test_20_000_mutated_calls_are_answered_once_and_in_order(fuzzer, places):
    tallies = fuzzer.fuzz(places, calls=20_000, seed=1)
    assert sum(tally.calls for tally in tallies.values()) == 20_000
    for tally in tallies.values():
        assert 0.02 < tally.accepted / tally.calls < 0.9, (
            "calls that are all refused, or all right, try nothing"
        )


def test_the_same_seed_gives_the_same_calls(fuzzer, places):
    def messages(seed):
        rng = np.random.default_rng(seed)
        return [fuzzer.mutated_message(places[0].plays[0][1], rng, most=9) for _ in range(50)]

    assert messages(3) == messages(3)
    assert messages(3) != messages(4)


def test_every_mutation_changes_calls(fuzzer, places):
    valid = places[0].plays[0][1]
    for mutation in set(fuzzer.MUTATIONS):
        rng = np.random.default_rng(0)
        changed = sum(mutation(call, valid, rng) != call for call in valid * 5)
        assert changed > 0.5 * len(valid * 5), mutation.__name__


class Broken(ToolEnv):
    """An environment that does one thing wrong."""

    tasks = questions(train={f"{n}?": str(n) for n in range(50)})
    max_turns = 40

    @tool
    def look(self, a: int) -> int:
        """Look."""
        return a

    @reward
    def correct(self, answer, target) -> float:
        return float(answer == target)


class Swaps(Broken):
    async def astep(self, action):
        observation, *rest = await super().astep(action)
        return observation[::-1], *rest


class Forgets(Broken):
    async def astep(self, action):
        observation, *rest = await super().astep(action)
        return observation[:8], *rest


class Raises(Broken):
    async def astep(self, action):
        for call in action.tool_calls:
            call.function.arguments.encode("utf-8")
        return await super().astep(action)


@pytest.mark.parametrize(
    ("cls", "words"), [(Swaps, "asked"), (Forgets, "asked"), (Raises, "UnicodeEncodeError")]
)
def test_a_broken_environment_is_found(fuzzer, cls, words):
    env = cls()
    calls = tuple(fuzzer._random_calls(env.tools, np.random.default_rng(0), 20))
    place = fuzzer.Arena("broken", env, ((env.tasks.at("train", 0), calls),))
    with pytest.raises(fuzzer.Broken, match=words):
        fuzzer.fuzz([place], calls=2000, seed=0)


def test_it_is_a_command(fuzzer, capsys):
    assert fuzzer.main(["--calls", "200", "--env", "turngym/Calculator-v0"]) == 0
    assert capsys.readouterr().out.endswith("every call was answered once and in order; none raised\n")
