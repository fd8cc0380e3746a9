from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from turngym.envs import make
from turngym.envs.exact import MDP, mdp_of

COIN = [(0, 0, 0.5, 1, 0.0, False), (0, 0, 0.5, 0, 1.0, True), (1, 0, 1.0, 1, 3.0, True)]


def test_rows_become_arrays_of_outcomes():
    mdp = MDP.of_rows(COIN, start=[0.25, 0.75], actions=1, observations=["heads", "tails"])
    assert (mdp.states, mdp.actions, mdp.is_deterministic) == (2, 1, False)
    assert mdp.after(np.array([10.0, 20.0])).tolist() == [20.0, 0.0, 0.0]
    assert mdp.expected(mdp.reward).tolist() == [[0.5], [3.0]]
    assert mdp.best(mdp.reward).tolist() == [1.0, 3.0]
    assert mdp.mean(np.array([4.0, 8.0])) == 7.0
    assert mdp.start_state("tails") == 1


def test_probabilities_must_sum_to_one():
    with pytest.raises(ValueError, match="do not sum to 1"):
        MDP.of_rows([(0, 0, 0.5, 0, 0.0, True)], start=[1.0], actions=1)
    with pytest.raises(ValueError, match="do not sum to 1"):
        MDP.of_rows(COIN, start=[0.5, 0.25], actions=1)
    with pytest.raises(ValueError, match="do not sum to 1"):  # an action that a state does not have
        MDP.of_rows(COIN, start=[0.5, 0.5], actions=2)


def test_a_start_state_must_be_told_apart():
    mdp = MDP.of_rows(COIN, start=[0.5, 0.5], actions=1, observations=["same", "same"])
    with pytest.raises(ValueError, match="2 start states look like 'same'"):
        mdp.start_state("same")
    assert MDP.of_rows(COIN, start=[1.0, 0.0], actions=1, observations=["x", "x"]).start_state("x") == 0


def test_an_idle_action_pays_and_changes_nothing():
    mdp = MDP.of_rows(COIN, start=[1.0, 0.0], actions=1).with_idle_action(reward=-2.0, ends=False)
    assert mdp.actions == 2
    assert mdp.expected(mdp.reward).tolist() == [[0.5, -2.0], [3.0, -2.0]]
    assert mdp.expected(mdp.after(np.array([5.0, 6.0])))[:, 1].tolist() == [5.0, 6.0]


@pytest.mark.parametrize("id", ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1"])
def test_gymnasiums_games_and_ours_have_the_same_table(id):
    theirs, ours = mdp_of(gymnasium.make(id)), mdp_of(make(f"turngym/{id.partition('-')[0]}-v0"))
    assert theirs.observations == ours.observations
    for name in ("start", "state", "action", "next", "probability", "reward", "ends"):
        assert np.array_equal(getattr(theirs, name), getattr(ours, name)), name
    assert mdp_of(ours) is ours


def test_a_table_is_gymnasiums_outcome_by_outcome():
    env = gymnasium.make("FrozenLake-v1").unwrapped
    mdp = mdp_of(env)
    k = 0
    for state in range(16):
        for action in range(4):
            for outcome in env.P[state][action]:
                found = (mdp.probability[k], mdp.next[k], mdp.reward[k], mdp.ends[k])
                assert (mdp.state[k], mdp.action[k], *found) == (state, action, *outcome)
                k += 1
    assert k == len(mdp.state)


def test_what_has_no_table_is_refused():
    with pytest.raises(ValueError, match="CartPoleEnv has no table"):
        mdp_of(gymnasium.make("CartPole-v1"))
    with pytest.raises(ValueError, match="change their mind"):
        mdp_of(gymnasium.make("Taxi-v4", fickle_passenger=True))
