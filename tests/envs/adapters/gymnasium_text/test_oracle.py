"""The experts earn what the tables say that the best policy earns."""

from __future__ import annotations

import numpy as np
import pytest

from turngym.envs import ListTasks, Task, assistant, make, user
from turngym.envs.adapters.gymnasium_text import GymnasiumText, TextGame
from turngym.envs.errors import ContractError
from turngym.envs.exact import evaluate_policy, random_policy, value_iteration


def total(env, policy, task, seed):
    """Reward of an episode."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed, options={"task": task})
    earned, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(policy(task, tuple(env.history), rng))
        earned += reward
        over = terminated or truncated
    return earned


def test_the_taxis_expert_earns_the_optimum_from_each_start():
    env = make("turngym/Taxi-v0")
    rewards = []
    for split in env.tasks.splits:
        for index in range(env.tasks.size(split)):
            task = env.tasks.at(split, index)
            rewards.append(total(env, env.expert, task, index))
            assert rewards[-1] == env.optimum(task).mean
            assert env.optimum(task).deviation == 0
    assert np.mean(rewards) == pytest.approx(7.93)


@pytest.mark.parametrize(
    ("id", "kwargs", "count"),
    [
        ("FrozenLake", {}, 3000),
        ("FrozenLake", {"map_name": "8x8", "limit": 60}, 1000),
        ("FrozenLake", {"map_name": "random4x4"}, 300),
        ("FrozenLake", {"limit": 12}, 3000),
        ("Blackjack", {}, 10_000),
        ("Blackjack", {"sab": False, "natural": True}, 10_000),
        ("CliffWalking", {"is_slippery": True}, 1000),
        ("Taxi", {"is_rainy": True}, 500),
    ],
)
def test_where_luck_decides_the_expert_earns_it_on_average(id, kwargs, count):
    env = make(f"turngym/{id}-v0", split="test", **kwargs)
    assert env.is_stochastic
    size = env.tasks.size("test")
    tasks = [env.tasks.at("test", n % size) for n in range(count)]
    earned = np.array([total(env, env.expert, task, n) for n, task in enumerate(tasks)])
    optima = [env.optimum(task) for task in tasks]
    best = np.mean([one.mean for one in optima])
    error = np.sqrt(sum(one.deviation**2 for one in optima)) / count
    assert earned.mean() == pytest.approx(best, abs=4 * error)
    surprise = earned - np.array([one.mean for one in optima])
    assert np.mean(surprise**2) == pytest.approx(np.mean([one.deviation**2 for one in optima]), rel=0.2)


def test_random_play_earns_what_the_table_says():
    env = make("turngym/Taxi-v0")
    mdp = env.mdp
    exact = evaluate_policy(mdp, random_policy(mdp), limit=200)[0]
    tasks = [env.tasks.at("train", n % 240) for n in range(720)]
    policy = lambda task, history, rng: assistant(env.game.actions[int(rng.integers(6))])  # noqa: E731
    earned = [total(env, policy, task, n) for n, task in enumerate(tasks)]
    expected = [exact[int(task.id.partition("-")[2])] for task in tasks]
    assert np.mean(earned) == pytest.approx(np.mean(expected), abs=4 * np.std(earned) / len(earned) ** 0.5)


def test_the_mean_of_all_starts_is_that_of_the_game():
    env = GymnasiumText("Blackjack-v1", tasks=ListTasks(train=[Task(id="any", prompt=())]))
    assert env.optimum(env.tasks.at("train", 0)).mean == pytest.approx(-0.0431131, abs=1e-7)
    assert env.optimum(env.tasks.at("train", 0)).deviation == pytest.approx(0.952, abs=1e-3)
    hands = make("turngym/Blackjack-v0", split="test")
    optima = [hands.optimum(hands.tasks.at("test", n)).mean for n in range(1000)]
    assert np.mean(optima) == pytest.approx(-0.0431, abs=4 * np.std(optima) / 1000**0.5)


def test_the_expert_knows_the_steps_that_are_left():
    env = make("turngym/FrozenLake-v0")
    policy = value_iteration(env, limit=100).policy
    chatter = (assistant("hm"), user("not one of: left, down, right, up"))
    differs = np.argwhere(policy[:100] != policy[0])
    assert len(differs) > 50
    for step, state in differs[::10].tolist():
        history = [user(env.game.describe(state)), *(m for _ in range(step) for m in chatter)]
        move = env.expert(env.tasks.at("train", 0), history, np.random.default_rng(0)).text
        assert move == env.game.actions[policy[step, state]] != env.game.actions[policy[0, state]]


def test_a_conversation_without_a_state_is_refused():
    env = make("turngym/FrozenLake-v0")
    with pytest.raises(ContractError, match="tells no state of train-0"):
        env.expert(env.tasks.at("train", 0), [user("hello")], np.random.default_rng(0))


def test_a_telling_that_hides_what_matters_is_noticed():
    def blind(env):
        return TextGame("Walk.", ("left", "down", "right", "up"), lambda s: "somewhere", lambda r, t: t, 0.0)

    env = GymnasiumText("FrozenLake-v1", game=blind)
    with pytest.raises(ContractError, match="depends on what is not told"):
        env.optimum(env.tasks.at("train", 0))
