"""Known values, and value iteration against a plain recursion over random games."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.toy_text import taxi
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.exact import MDP, evaluate_policy, mdp_of, random_policy, value_iteration


@st.composite
def games(draw):
    """Small random games, luck and ends included."""
    states, actions = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows = []
    for state in range(states):
        for action in range(actions):
            count = int(rng.integers(1, 4))
            for probability in rng.dirichlet(np.ones(count)):
                reward = float(rng.integers(-3, 4))
                rows.append(
                    (state, action, probability, int(rng.integers(states)), reward, bool(rng.random() < 0.4))
                )
    return MDP.of_rows(rows, start=rng.dirichlet(np.ones(states)), actions=actions)


def reference(mdp, limit, gamma):
    """Best expected return of each state, as the definition says it."""
    if limit == 0:
        return [0.0] * mdp.states
    later = reference(mdp, limit - 1, gamma)
    best = [[0.0] * mdp.actions for _ in range(mdp.states)]
    for s, a, n, p, r, ends in zip(
        mdp.state, mdp.action, mdp.next, mdp.probability, mdp.reward, mdp.ends, strict=True
    ):
        best[s][a] += p * (r + (0.0 if ends else gamma * later[n]))
    return [max(row) for row in best]


@settings(max_examples=60, deadline=None)
@given(games(), st.integers(1, 6), st.sampled_from([1.0, 0.9]))
def test_with_a_limit_it_is_the_recursion(mdp, limit, gamma):
    solution = value_iteration(mdp, limit=limit, gamma=gamma)
    for t in range(limit + 1):
        assert solution.values[t] == pytest.approx(reference(mdp, limit - t, gamma), abs=1e-9)
    assert solution.mean == pytest.approx(float(mdp.start @ np.array(reference(mdp, limit, gamma))), abs=1e-9)
    earned = evaluate_policy(mdp, solution.policy, limit=limit, gamma=gamma)
    assert earned == pytest.approx(solution.values, abs=1e-7 * limit)


@settings(max_examples=60, deadline=None)
@given(games(), st.sampled_from([0.5, 0.9, 0.99]))
def test_without_a_limit_no_policy_is_better_and_its_own_is_as_good(mdp, gamma):
    solution = value_iteration(mdp, gamma=gamma)
    after = solution.mdp.expected(mdp.reward + gamma * mdp.after(solution.values))
    assert after.max(axis=1) == pytest.approx(solution.values, abs=1e-6)  # Bellman's equation
    assert (evaluate_policy(mdp, random_policy(mdp), gamma=gamma) <= solution.values + 1e-7).all()
    assert evaluate_policy(mdp, solution.policy, gamma=gamma) == pytest.approx(solution.values, abs=1e-9)


def test_a_long_limit_approaches_no_limit():
    mdp = mdp_of(gymnasium.make("FrozenLake-v1"))
    assert value_iteration(mdp, limit=3000).mean == pytest.approx(value_iteration(mdp).mean, abs=1e-9)


@pytest.mark.parametrize(
    ("id", "limit", "value"),
    [
        # 14/17: the known value of the 4x4 map without a limit.
        ("FrozenLake-v1", None, 14 / 17),
        ("FrozenLake8x8-v1", None, 1.0),
        # With the limits: Gymnasium's registry names 0.74 and 0.91 as the optima.
        ("FrozenLake-v1", 100, 0.7441902878),
        ("FrozenLake8x8-v1", 200, 0.9132201502),
        # Sutton and Barto (2018), example 6.6: the shortest way has 13 steps.
        ("CliffWalking-v1", None, -13.0),
        ("CliffWalking-v1", 100, -13.0),
        # 2,379 points over 300 starts.
        ("Taxi-v4", None, 7.93),
        ("Taxi-v4", 200, 7.93),
    ],
)
def test_known_optima(id, limit, value):
    assert value_iteration(gymnasium.make(id), limit=limit).mean == pytest.approx(value, abs=1e-9)


def test_the_optimum_of_taxis_earlier_map_is_the_published_one(monkeypatch):
    # Version 2 had one wall less. Its optimum 8.46333… is derived by counting ways in a post of 2018
    # (wergieluk.com/posts/rl-taxi) and still stands, rounded, beside version 4 in Gymnasium's registry.
    earlier = [*taxi.MAP]
    earlier[2] = "| : : : : |"
    monkeypatch.setattr(taxi, "MAP", earlier)
    assert value_iteration(taxi.TaxiEnv()).mean == pytest.approx(8 + 139 / 300)


@pytest.mark.parametrize("limit", [None, 100])
def test_ties_are_broken_by_the_shortest_way(limit):
    # On ice that is not slippery every step that does not fall into a hole keeps the value 1, into the wall or not.
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    solution = value_iteration(env, limit=limit)
    state, _ = env.reset(seed=0)
    for step in range(6):
        state, reward, terminated, *_ = env.step(solution.action(state, step))
    assert (reward, terminated) == (1.0, True)


def test_with_few_steps_left_the_best_policy_takes_risks():
    solution = value_iteration(gymnasium.make("FrozenLake-v1"), limit=100)
    assert solution.policy.shape == (100, 16)
    assert solution.values[100].tolist() == [0.0] * 16
    assert (solution.policy[0] != solution.policy[95]).any()
    assert solution.values[99, 14] == pytest.approx(1 / 3)


def test_what_grows_for_ever_is_refused():
    treadmill = MDP.of_rows([(0, 0, 1.0, 0, 1.0, False)], start=[1.0], actions=1)
    with pytest.raises(ValueError, match="do not settle"):
        value_iteration(treadmill)
    assert value_iteration(treadmill, gamma=0.5).mean == pytest.approx(2.0)
    assert value_iteration(treadmill, limit=7).mean == 7.0


@pytest.mark.parametrize("wrong", [{"gamma": 0.0}, {"gamma": 1.1}, {"limit": 0}])
def test_misuse(wrong):
    with pytest.raises(ValueError, match="expected 0 < gamma ≤ 1"):
        value_iteration(gymnasium.make("CliffWalking-v1"), **wrong)
