"""The games in words are Gymnasium's games: same starts, same luck, same rewards and ends."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import seeding

from turngym.envs import ListTasks, Task, ToolCall, assistant, make, user
from turngym.envs.adapters.gymnasium_text import GymnasiumText, TextGame
from turngym.envs.env import policies_of
from turngym.envs.errors import ContractError

GAMES = {
    "FrozenLake-v0": ("FrozenLake-v1", {}, {"is_slippery": True}),
    "FrozenLake-v0 on firm ice": ("FrozenLake-v1", {"is_slippery": False}, {"is_slippery": False}),
    "FrozenLake-v0 of 8x8": ("FrozenLake8x8-v1", {"map_name": "8x8"}, {}),
    "Taxi-v0": ("Taxi-v4", {}, {}),
    "Taxi-v0 in the rain": ("Taxi-v4", {"is_rainy": True}, {"is_rainy": True}),
    "CliffWalking-v0": ("CliffWalking-v1", {}, {"max_episode_steps": 100}),
    "CliffWalking-v0, slippery": ("CliffWalkingSlippery-v1", {"is_slippery": True}, {"max_episode_steps": 100}),
    "Blackjack-v0": ("Blackjack-v1", {}, {}),
    "Blackjack-v0 with naturals": (
        "Blackjack-v1", {"sab": False, "natural": True}, {"sab": False, "natural": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GAMES)
def test_1000_random_trajectories_are_those_of_the_game_underneath(name):
    id, kwargs, theirs = GAMES[name]
    env = make(f"turngym/{name.partition(' ')[0].rstrip(',')}", **kwargs)
    twin = gymnasium.make(id, **theirs)
    describe, rng = env.game.describe, np.random.default_rng(0)
    for seed in range(1000):
        (opening,), info = env.reset(seed=seed)
        state, _ = twin.reset(seed=env.task.metadata["seed"])
        twin.unwrapped.np_random = seeding.np_random(seed)[0]
        assert opening.text == f"{env.game.rules}\n{describe(state)}"
        assert info["anchor"] == describe(state)
        over = False
        while not over:
            move = int(rng.integers(len(env.game.actions)))
            (message,), reward, terminated, truncated, info = env.step(env.game.actions[move])
            state, *expected, _ = twin.step(move)
            assert (message.text, info["anchor"]) == (describe(state), describe(state))
            assert [reward, terminated, truncated and not terminated] == [
                *expected[:2],
                expected[2] and not expected[1],
            ]
            over = terminated or truncated


@pytest.mark.parametrize("name", GAMES)
def test_every_state_reads_differently(name):
    _, kwargs, _ = GAMES[name]
    env = make(f"turngym/{name.partition(' ')[0].rstrip(',')}", **kwargs)
    seen = set(env.mdp.observations)
    told = [env.game.describe(observation) for observation in seen]
    assert len(set(told)) == len(seen) == (len(env.mdp.observations) if "Blackjack" not in name else 280)
    assert not any("\n" in text for text in told)


def test_an_episode_word_by_word():
    env = make("turngym/FrozenLake-v0", is_slippery=False)
    (opening,), info = env.reset(seed=0)
    assert opening.text.splitlines()[3:] == ["SFFF", "FHFH", "FFFH", "HFFG", "row 0, column 0"]
    assert info["anchor"] == "row 0, column 0"
    assert env.step(" right\n") == (
        (user("row 0, column 1"),), 0.0, False, False,
        {"anchor": "row 0, column 1", "reward_components": {"game": 0.0}},
    )  # fmt: skip
    assert env.step("down")[2:] == (
        True, False,
        {
            "anchor": "row 1, column 1",
            "reward_components": {"game": 0.0},
            "metrics": {"success": 0.0, "invalid": 0.0},
        },
    )  # fmt: skip


def test_the_goal_is_success():
    env = make("turngym/FrozenLake-v0", is_slippery=False)
    env.reset(seed=0)
    for move in ("down", "down", "right", "right", "down"):
        assert env.step(move)[1:4] == (0.0, False, False)
    _, reward, terminated, truncated, info = env.step("right")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["metrics"] == {"success": 1.0, "invalid": 0.0}


@pytest.mark.parametrize("text", ["", "Left", "left.", "go left", "left right", "0", "lefт", "x" * 100_000])
def test_what_is_no_move_is_told_so_and_changes_nothing(text):
    env = make("turngym/Taxi-v0", limit=3)
    _, before = env.reset(seed=1)
    for step in range(1, 4):
        (message,), reward, terminated, truncated, info = env.step(text)
        assert message.text == "not one of: south, north, east, west, pickup, dropoff"
        assert (reward, terminated, truncated) == (-1.0, False, step == 3)
        assert info["anchor"] == before["anchor"]
    assert info["metrics"] == {"success": 0.0, "invalid": 3.0}


def test_calls_are_answered_and_no_move():
    env = make("turngym/CliffWalking-v0")
    env.reset(seed=0)
    observation, reward, *_ = env.step(assistant("up", ToolCall.of("up", "{}", id="x")))
    assert [message.tool_call_id for message in observation] == ["x", None]
    assert reward == -1.0


def test_nonsense_at_the_table_loses_the_hand():
    env = make("turngym/Blackjack-v0")
    env.reset(seed=0)
    assert env.step("Hit me")[1:4] == (-1.0, True, False)


@pytest.mark.parametrize("name", ["FrozenLake", "Taxi", "CliffWalking", "Blackjack"])
def test_nonsense_is_never_a_way_out(name):
    # With "say nonsense" as a further move the best that can be done stays the same, from every state, at every step.
    from turngym.envs.exact import value_iteration

    env = make(f"turngym/{name}-v0")
    more = env.mdp.with_idle_action(reward=env.game.invalid_reward, ends=env.game.invalid_ends)
    assert value_iteration(more, limit=50).values == pytest.approx(value_iteration(env.mdp, limit=50).values)


def test_the_limit_truncates_and_never_both():
    env = GymnasiumText("FrozenLake-v1", is_slippery=False, limit=6)
    env.reset(seed=0)
    for move in ("down", "down", "right", "right", "down"):
        env.step(move)
    assert env.step("right")[2:4] == (True, False)  # the goal, with the last step
    env.reset(seed=0)
    for _ in range(5):
        assert env.step("up")[2:4] == (False, False)
    assert env.step("up")[2:4] == (False, True)
    with pytest.raises(ValueError, match="at least 1"):
        GymnasiumText("FrozenLake-v1", limit=0)


def test_limits_are_those_of_the_registry_unless_said_otherwise():
    assert GymnasiumText("FrozenLake-v1").limit == 100
    assert GymnasiumText("Taxi-v4").limit == 200
    assert GymnasiumText("CliffWalking-v1").limit is None
    assert GymnasiumText("FrozenLake-v1", limit=None).limit is None
    assert GymnasiumText("FrozenLake-v1", limit=None).reward_range == (0.0, 1.0)


def test_a_group_starts_alike_and_goes_on_differently():
    env = make("turngym/Blackjack-v0")
    openings, goings_on = set(), set()
    for seed in range(40):
        (opening,), _ = env.reset(seed=seed, options={"task": "train-6"})
        openings.add(opening.text)
        goings_on.add(env.step("hit")[0][0].text)
    assert len(openings) == 1
    assert len(goings_on) > 5


class Steps(gymnasium.Env):
    """Count up or down from a random start; 3 ends it. Nobody registered it, and it has no table."""

    def __init__(self, least=0):
        self.observation_space = gymnasium.spaces.Tuple(
            (gymnasium.spaces.Discrete(9, start=-4), gymnasium.spaces.Discrete(2))
        )
        self.action_space = gymnasium.spaces.Discrete(2, start=5)
        self.least = least

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.least + int(self.np_random.integers(2))
        return (np.int64(self.place), 0), {}

    def step(self, action):
        self.place += {5: -1, 6: 1}[action]
        return (np.int64(self.place), 1), self.place / 3, self.place == 3, self.place == -4, {}


def test_any_other_environment_is_told_in_numbers():
    env = GymnasiumText(Steps, least=1, reward_range=(-9, 9))
    (opening,), info = env.reset(seed=0)
    place = 1 if "1, 0" in info["anchor"] else 2
    assert opening.text == f"Play Steps. Reply with a number from 5 to 6.\nstate {place}, 0"
    assert env.step("5")[0] == (user(f"state {place - 1}, 1"),)
    assert env.step("4")[0] == (user("not one of: 5, 6"),)
    assert env.mdp is None
    assert "expert" not in policies_of(env)
    assert env.reward_range == (-9, 9)
    with pytest.raises(ContractError, match="does not say what the best policy earns"):
        GymnasiumText(Steps).optimum(env.task)


def test_truncation_from_inside_is_passed_on():
    env = GymnasiumText(Steps)
    env.reset(seed=0)
    flags = [env.step("5")[2:4] for _ in range(4 + int(env._state[0]))]
    assert flags[-1] == (False, True)
    assert set(flags[:-1]) == {(False, False)}


def test_a_task_without_a_seed_leaves_the_start_to_the_episode():
    tasks = ListTasks(train=[Task(id="any", prompt=())])
    env = GymnasiumText("Taxi-v4", tasks=tasks)
    starts = {env.reset(seed=seed)[1]["anchor"] for seed in range(20)}
    assert len(starts) > 10
    assert env.reset(seed=3) == env.reset(seed=3)


def test_words_of_ones_own():
    def telling(env):
        return TextGame("Walk!", ("w", "s", "e", "n"), lambda s: f"#{s}", lambda r, t: t, 0.0)

    env = GymnasiumText("FrozenLake-v1", game=telling, is_slippery=False)
    assert env.reset(seed=0)[0] == (user("Walk!\n#0"),)
    assert env.step("e")[0] == (user("#1"),)


def test_what_cannot_be_counted_is_refused():
    with pytest.raises(ContractError, match="CartPoleEnv: moves must be Discrete, and states Discrete"):
        GymnasiumText("CartPole-v1")
    with pytest.raises(ContractError, match="moves must be Discrete"):
        GymnasiumText("Pendulum-v1")


@pytest.mark.parametrize("kwargs", [{}, {"map_name": "random4x4"}])
def test_forks_share_tables_and_nothing_that_changes(kwargs):
    env = make("turngym/FrozenLake-v0", **kwargs)
    env.reset(seed=0)
    twin = env.fork()
    assert twin._env is not env._env
    assert twin._env.unwrapped.P is env._env.unwrapped.P
    assert twin._env.unwrapped.np_random is twin.np_random is not env.np_random
    twin.reset(seed=5, options={"task": "train-9"})
    for _ in range(20):
        if any(twin.step("left")[2:4]):
            break
    assert env.task.id != "train-9"
    assert env.step("up")[4]["anchor"]


def test_invalid_replies_in_unknown_games_pay_the_least_that_a_move_pays():
    from turngym.envs.adapters.gymnasium_text.telling import in_numbers

    assert GymnasiumText("CliffWalking-v1", game=in_numbers).game.invalid_reward == -100.0
    assert GymnasiumText("FrozenLake-v1", game=in_numbers).game.invalid_reward == 0.0
    assert GymnasiumText(Steps).game.invalid_reward == -1.0
