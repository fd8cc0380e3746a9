"""The registered games keep the laws."""

from __future__ import annotations

import pytest
from gymnasium.utils.env_checker import check_env

from turngym.envs import check, make, reference_policy
from turngym.envs.checks.probe import Probe
from turngym.envs.errors import UnknownArgument

NAMES = ["Blackjack", "CliffWalking", "FrozenLake", "Taxi"]


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_pass(name):
    assert [result for result in check(f"turngym/{name}-v0", tasks=2) if not result.ok] == []


@pytest.mark.parametrize("name", NAMES)
def test_gymnasiums_checker_passes(name):
    check_env(make(f"turngym/{name}-v0"))


@pytest.mark.parametrize(
    ("name", "episodes"), [("Blackjack", 1000), ("CliffWalking", 1000), ("FrozenLake", 1000), ("Taxi", 250)]
)
def test_random_play_raises_nothing(name, episodes):
    # A tenth of the episodes that the benchmark plays; less of Taxi, whose random episodes last 200 steps.
    id = f"turngym/{name}-v0"
    env, probe = make(id), Probe(id, tasks=1, seed=0)
    policy = reference_policy(id, "random")
    low, high = env.reward_range
    for number in range(episodes):
        task = env.tasks.at("train", number % 200)
        played = probe.play(env, policy, task, most=1000, seed=number)
        assert played.is_over
        assert low <= played.reward <= high


def test_arguments():
    assert make("turngym/FrozenLake-v0", map_name="8x8").limit == 200
    assert make("turngym/FrozenLake-v0", limit=17).limit == 17
    assert not make("turngym/FrozenLake-v0", is_slippery=False).is_stochastic
    assert make("turngym/CliffWalking-v0").reward_range == (-10_000.0, -13.0)
    assert make("turngym/Taxi-v0").reward_range == (-2000.0, 15.0)
    assert make("turngym/Blackjack-v0", sab=False, natural=True).reward_range == (-1.0, 1.5)
    with pytest.raises(ValueError, match="no map '5x5'"):
        make("turngym/FrozenLake-v0", map_name="5x5")
    with pytest.raises(UnknownArgument, match="did you mean is_slippery"):
        make("turngym/FrozenLake-v0", slippery=True)


def test_rules_say_what_holds():
    def rules(id, **kwargs):
        return make(f"turngym/{id}-v0", **kwargs).game.rules

    assert "slippery" in rules("FrozenLake")
    assert "slippery" not in rules("FrozenLake", is_slippery=False)
    assert "slippery" in rules("CliffWalking", is_slippery=True)
    assert "rains" in rules("Taxi", is_rainy=True)
    assert "rains" not in rules("Taxi")
    assert "win against anything but the same" in rules("Blackjack")
    assert "earns 1.5" in rules("Blackjack", sab=False, natural=True)


def test_a_new_lake_for_each_task():
    env = make("turngym/FrozenLake-v0", map_name="random4x4", split="test")
    lakes = {env.reset(seed=0, options={"task": f"test-{n}"})[0][0].text for n in range(20)}
    assert len(lakes) > 10  # so small a lake has not many forms
    again = make("turngym/FrozenLake-v0", map_name="random4x4", split="test")
    assert again.reset(seed=0, options={"task": "test-7"})[0][0].text in lakes
