"""What a given policy earns, exactly: its mean return, how far single returns lie from it, and the bounds of any
return."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from turngym.envs.exact.mdp import MDP, Bools, Floats, Ints, mdp_of

Policy = Ints | Floats
"""Whole numbers: the action of each state, [S]. Others: the probability of each action, [S, A]. With a limit either
may have the number of steps already taken as its first axis: [T, S] or [T, S, A]."""


def random_policy(env: Any) -> Floats:
    """[S, A] The policy that takes every action with the same probability."""
    mdp = mdp_of(env)
    return np.full((mdp.states, mdp.actions), 1.0 / mdp.actions)


def evaluate_policy(env: Any, policy: Policy, *, gamma: float = 1.0, limit: int | None = None) -> Floats:
    """[S] The expected return of a policy from each state; [T+1, S] with a limit, by the steps already taken.

    Args:
        env: an `MDP`, or an environment that `mdp_of` understands.
        policy: what is done where; see `Policy`.
        gamma: discount of each step.
        limit: steps after which an episode is cut.

    Raises:
        ValueError: the policy has another shape, or is paid for ever without an end.
    """
    mdp = mdp_of(env)
    return _returns(mdp, _weights(mdp, policy, limit), mdp.reward, gamma, limit)


def return_deviation(env: Any, policy: Policy, *, gamma: float = 1.0, limit: int | None = None) -> Floats:
    """[S] or [T+1, S]: the standard deviation of a policy's return, by the recursion of its second moment:

        E[G²] = Σ p (r² + 2 γ r V(s') + γ² E[G'²])

    Source: Sobel 1982, The variance of discounted Markov decision processes.
    """
    mdp = mdp_of(env)
    weights = _weights(mdp, policy, limit)
    mean = _returns(mdp, weights, mdp.reward, gamma, limit)
    following = np.stack([mdp.after(row) for row in mean[1:]]) if limit is not None else mdp.after(mean)
    second = _returns(mdp, weights, mdp.reward**2 + 2 * gamma * mdp.reward * following, gamma**2, limit)
    return np.sqrt(np.maximum(second - mean**2, 0.0))


def return_range(env: Any, *, limit: int | None = None) -> tuple[float, float]:
    """The least and the greatest total reward that any policy can get with any luck, over all start states."""
    mdp = mdp_of(env)
    starts = np.flatnonzero(mdp.start)
    low = 0.0 - _luckiest(mdp, -mdp.reward, limit)[starts].max()
    return float(low), float(_luckiest(mdp, mdp.reward, limit)[starts].max())


def _luckiest(mdp: MDP, reward: Floats, limit: int | None) -> Floats:
    """[S] The greatest total from each state if policy and luck both aim at it; inf where it has no bound."""
    values = np.zeros(mdp.states)
    if limit is not None:
        for _ in range(limit):
            values = mdp.best(reward + mdp.after(values))
        return values
    values = np.full(mdp.states, -np.inf)  # only what ends counts
    for _ in range(mdp.states):
        before, values = values, mdp.best(reward + mdp.after(values))
        if (values == before).all():
            return values
    settled = values
    for _ in range(
        mdp.states
    ):  # a walk without a circle has at most S steps: what still grows goes round in one
        values = mdp.best(reward + mdp.after(values))
    return np.where(values > settled, np.inf, values)


def _weights(mdp: MDP, policy: Policy, limit: int | None) -> Floats:
    """[K] or [T, K]: how likely each outcome is in its state, under the policy."""
    given: NDArray[Any] = np.asarray(policy)
    is_plan = given.dtype.kind in "iu"
    shape = (mdp.states,) if is_plan else (mdp.states, mdp.actions)
    if given.shape != shape and (limit is None or given.shape != (limit, *shape)):
        steps = "" if limit is None else f", with or without {limit} steps before it"
        raise ValueError(f"a policy of shape {given.shape}: expected {shape}{steps}")
    if is_plan:
        return np.where(given[..., mdp.state] == mdp.action, mdp.probability, 0.0)
    return np.asarray(given[..., mdp.state, mdp.action] * mdp.probability, dtype=np.float64)


def _returns(mdp: MDP, weights: Floats, reward: Floats, gamma: float, limit: int | None) -> Floats:
    """Expected sums of `reward`, [K] or [T, K], with or without a limit."""
    if limit is None:
        return _endless(mdp, weights, reward, gamma)
    weights, reward = (np.broadcast_to(array, (limit, len(mdp.state))) for array in (weights, reward))
    values = np.zeros((limit + 1, mdp.states))
    for t in reversed(range(limit)):
        after = reward[t] + gamma * mdp.after(values[t + 1])
        values[t] = np.bincount(mdp.state, weights[t] * after, minlength=mdp.states)
    return values


def _endless(mdp: MDP, weights: Floats, reward: Floats, gamma: float) -> Floats:
    """Solve V = r + γ P V for the states from which the policy comes to an end (all of them if γ < 1)."""
    paid = np.bincount(mdp.state, weights * reward, minlength=mdp.states)
    moves = np.zeros((mdp.states, mdp.states))
    goes_on = ~mdp.ends
    np.add.at(moves, (mdp.state[goes_on], mdp.next[goes_on]), weights[goes_on])
    solved = np.ones(mdp.states, dtype=np.bool_) if gamma < 1 else _can_end(mdp, weights)
    stuck = np.flatnonzero(~solved)
    if np.abs(paid[stuck]).max(initial=0.0) > 0:
        raise ValueError("this policy is paid for ever without an end: give a limit, or gamma < 1")
    rows = np.flatnonzero(solved)
    values = np.zeros(mdp.states)
    values[rows] = np.linalg.solve(np.eye(len(rows)) - gamma * moves[np.ix_(rows, rows)], paid[rows])
    return values


def _can_end(mdp: MDP, weights: Floats) -> Bools:
    """[S] True where the policy can come to an end."""
    possible = weights > 0
    can = np.zeros(mdp.states, dtype=np.bool_)
    while True:
        ending = possible & (mdp.ends | can[mdp.next])
        wider = can | (np.bincount(mdp.state, ending, minlength=mdp.states) > 0)
        if (wider == can).all():
            return can
        can = wider
