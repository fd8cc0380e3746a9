from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.exact import MDP, evaluate_policy, mdp_of, random_policy, return_deviation, return_range

from .test_solve import games


def distribution(mdp, weights, state, limit):
    """All returns of `limit` steps and how likely each is, by following every branch."""
    if limit == 0:
        return {0.0: 1.0}
    found: dict[float, float] = {}
    for k in np.flatnonzero(mdp.state == state):
        rest = {0.0: 1.0} if mdp.ends[k] else distribution(mdp, weights, mdp.next[k], limit - 1)
        for total, probability in rest.items():
            share = mdp.probability[k] * weights[state, mdp.action[k]] * probability
            found[total + mdp.reward[k]] = found.get(total + mdp.reward[k], 0.0) + share
    return found


@settings(max_examples=40, deadline=None)
@given(games(), st.integers(1, 4), st.integers(0, 2**32))
def test_mean_deviation_and_range_are_those_of_the_distribution(mdp, limit, seed):
    rng = np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(mdp.actions), size=mdp.states)
    means, deviations = (f(mdp, policy, limit=limit)[0] for f in (evaluate_policy, return_deviation))
    lows, highs = [], []
    for state in range(mdp.states):
        chances = distribution(mdp, policy, state, limit)
        mean = sum(p * g for g, p in chances.items())
        variance = sum(p * (g - mean) ** 2 for g, p in chances.items())
        assert means[state] == pytest.approx(mean, abs=1e-9)
        assert deviations[state] ** 2 == pytest.approx(variance, abs=1e-7)
        lows.append(min(chances))
        highs.append(max(chances))
    assert return_range(mdp, limit=limit) == (min(lows), max(highs))


@settings(max_examples=40, deadline=None)
@given(games(), st.integers(0, 2**32))
def test_without_a_limit_it_is_the_limit_of_long_ones(mdp, seed):
    policy = np.random.default_rng(seed).dirichlet(np.ones(mdp.actions), size=mdp.states)
    for measure in (evaluate_policy, return_deviation):
        long = measure(mdp, policy, limit=600, gamma=0.95)[0]
        assert measure(mdp, policy, gamma=0.95) == pytest.approx(long, abs=1e-6)


def test_a_policy_may_be_plain_or_mixed_fixed_or_by_step():
    mdp = mdp_of(gymnasium.make("FrozenLake-v1"))
    plan = np.arange(16) % 4
    mixed = np.eye(4)[plan]
    expected = evaluate_policy(mdp, plan, limit=9)
    assert np.array_equal(evaluate_policy(mdp, mixed, limit=9), expected)
    assert np.array_equal(evaluate_policy(mdp, np.tile(plan, (9, 1)), limit=9), expected)
    assert np.array_equal(evaluate_policy(mdp, np.tile(mixed, (9, 1, 1)), limit=9), expected)
    for wrong, limit in itertools.product([np.zeros(15, dtype=int), np.zeros((8, 16), dtype=int)], [None, 9]):
        with pytest.raises(ValueError, match="a policy of shape"):
            evaluate_policy(mdp, wrong, limit=limit)


def test_random_walks_agree():
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=100)
    mdp = mdp_of(env)
    exact = mdp.mean(evaluate_policy(mdp, random_policy(mdp), limit=100))
    assert exact == pytest.approx(0.013940, abs=1e-6)
    rng, wins, count = np.random.default_rng(0), 0.0, 4000
    env.reset(seed=0)
    for _ in range(count):
        env.reset()
        over = False
        while not over:
            _, reward, terminated, truncated, _ = env.step(int(rng.integers(4)))
            over = terminated or truncated
        wins += reward
    assert wins / count == pytest.approx(exact, abs=4 * (exact * (1 - exact) / count) ** 0.5)


def test_never_ending():
    rows = [
        (0, 0, 1.0, 0, 0.0, False),
        (0, 1, 1.0, 0, 5.0, True),
        (1, 0, 1.0, 1, -1.0, False),
        (1, 1, 1.0, 0, 0.0, False),
    ]
    mdp = MDP.of_rows(rows, start=[1.0, 0.0], actions=2)
    assert evaluate_policy(mdp, np.array([0, 1])).tolist() == [0.0, 0.0]  # it never ends, and is never paid
    assert evaluate_policy(mdp, np.array([1, 1])).tolist() == [5.0, 5.0]
    with pytest.raises(ValueError, match="paid for ever"):
        evaluate_policy(mdp, np.array([1, 0]))


def test_ranges_without_a_limit():
    assert return_range(gymnasium.make("CliffWalking-v1")) == (-np.inf, -13.0)
    assert return_range(gymnasium.make("FrozenLake-v1")) == (0.0, 1.0)
    assert return_range(gymnasium.make("Blackjack-v1", sab=False, natural=True)) == (-1.0, 1.5)
    assert return_range(gymnasium.make("Taxi-v4"))[1] == 15.0
