"""The laws of the design that concern environments: 6 (flags), 9 (determinism), 12 (hidden targets)."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs import make, reference_policy
from turngym.envs.checks import contract, dynamics, secrecy
from turngym.envs.checks.probe import Probe

IDS = ["turngym/Calculator-v0", "turngym/GuessNumber-v0"]


def random_episode(env, id, seed):
    """Everything that an episode of the random policy returns."""
    policy, rng = reference_policy(id, "random"), np.random.default_rng(seed)
    seen = [env.reset(seed=seed)]
    while len(seen) < 20:
        seen.append(env.step(policy(env.task, tuple(env.history), rng)))
        if seen[-1][2] or seen[-1][3]:
            break
    return seen


@pytest.mark.parametrize("id", IDS)
def test_law_06_flags_mean_what_gymnasium_says(id):
    contract.flags_exclude_each_other(Probe(id, tasks=16, seed=0))
    env = make(id)
    for seed in range(20):  # their limits are rules of the task: every episode of theirs terminates
        *_, terminated, truncated, _ = random_episode(env, id, seed)[-1]
        assert (terminated, truncated) == (True, False)


@pytest.mark.parametrize("id", IDS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), other=st.integers(0, 2**63 - 1))
def test_law_09_same_seed_same_actions_same_trajectory(id, seed, other):
    used = make(id)
    random_episode(used, id, other)
    assert random_episode(used, id, seed) == random_episode(make(id), id, seed)


@pytest.mark.parametrize("id", IDS)
def test_law_09_global_generators_play_no_part(id):
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tolist()
    first = random_episode(make(id), id, 5)
    assert before == (random.getstate(), np.random.get_state()[1].tolist())
    random.seed(2)
    np.random.seed(2)
    assert random_episode(make(id), id, 5) == first


@pytest.mark.parametrize("id", IDS)
def test_law_09_fork_law(id):
    dynamics.fork_law(Probe(id, tasks=16, seed=3))


@pytest.mark.parametrize("id", IDS)
def test_law_12_hidden_targets_stay_hidden(id):
    secrecy.target_is_hidden(Probe(id, tasks=64, seed=0))


@pytest.mark.parametrize("id", IDS)
def test_law_12_infos_carry_no_target(id):
    env = make(id)
    for index in range(20):
        task = env.tasks.at("train", index % 16).model_copy(update={"target": 987654321})
        _, info = env.reset(seed=0, options={"task": task})
        assert "987654321" not in repr(info)
        assert "987654321" not in repr(env.step("1"))
