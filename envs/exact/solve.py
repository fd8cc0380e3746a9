"""The best policy of a game, by value iteration (Bellman 1957):

    V_{n+1}(s) = max_a Σ p(s', r | s, a) (r + γ V_n(s'))        V_0 = 0, and the value of what is over is 0

After n rounds V_n is the best expected return of n steps, which is all there is where the game has a limit. Without
a limit the rounds go on until nothing changes.

Several actions are often equally good, and one of them may be to walk into a wall for ever: with γ = 1 each step of
it keeps the value of the state. So ties are broken by the fewest expected steps to the end, and a policy without a
limit is evaluated exactly before it is returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from turngym.envs.exact.evaluate import evaluate_policy
from turngym.envs.exact.mdp import MDP, Bools, Floats, Ints, mdp_of

TIE: Final = 1e-9
"""Actions whose values differ by less, relative to the greatest value there is, are equally good."""
_SETTLED: Final = 1e-13
_MOST_SWEEPS: Final = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The best that can be done in a game."""

    mdp: MDP
    """The game."""
    gamma: float
    """Discount of each step."""
    limit: int | None
    """Steps after which nothing more is earned; None if there is no limit."""
    values: Floats
    """[S] Expected return of the best policy from each state; [T+1, S] with a limit, by the steps already taken."""
    policy: Ints
    """[S] The action that the best policy takes in each state; [T, S] with a limit."""

    @property
    def mean(self) -> float:
        """Expected return of the best policy over the start states."""
        return self.mdp.mean(self.values)

    def action(self, state: int, step: int = 0) -> int:
        """What the best policy does in a state after `step` steps."""
        return int(self.policy[state] if self.limit is None else self.policy[step, state])


def value_iteration(env: Any, *, gamma: float = 1.0, limit: int | None = None) -> Solution:
    """The best policy and its value.

    Args:
        env: an `MDP`, or an environment that `mdp_of` understands.
        gamma: discount of each step, above 0 and at most 1.
        limit: steps after which an episode is cut, whatever its state. The best policy then depends on the steps
            that are left.

    Raises:
        ValueError: no table; a discount or limit that makes no sense; or values that grow for ever.
    """
    mdp = mdp_of(env)
    if not 0 < gamma <= 1 or (limit is not None and limit < 1):
        raise ValueError(f"expected 0 < gamma ≤ 1 and a limit of at least 1, got {gamma} and {limit}")
    return _endless(mdp, gamma) if limit is None else _limited(mdp, gamma, limit)


def _limited(mdp: MDP, gamma: float, limit: int) -> Solution:
    values = np.zeros((limit + 1, mdp.states))
    policy = np.zeros((limit, mdp.states), dtype=np.int64)
    steps = np.zeros(mdp.states)
    for t in reversed(range(limit)):
        action_values = mdp.expected(mdp.reward + gamma * mdp.after(values[t + 1]))
        policy[t], steps = _choose(mdp, _tied(action_values), steps)
        values[t] = action_values.max(axis=1)
    return Solution(mdp, gamma, limit, values, policy)


def _endless(mdp: MDP, gamma: float) -> Solution:
    values = np.zeros(mdp.states)
    for _ in range(_MOST_SWEEPS):
        action_values = mdp.expected(mdp.reward + gamma * mdp.after(values))
        before, values = values, action_values.max(axis=1)
        if np.abs(values - before).max() <= _SETTLED * max(1.0, np.abs(values).max()):
            break
    else:
        raise ValueError(f"the values do not settle in {_MOST_SWEEPS} rounds: give a limit, or gamma < 1")
    policy = _soonest(mdp, _tied(mdp.expected(mdp.reward + gamma * mdp.after(values))))
    exact = evaluate_policy(mdp, policy, gamma=gamma)
    if np.abs(exact - values).max() > TIE * max(1.0, np.abs(values).max()) * 10:
        raise ValueError("the best value is reached by no policy that ends: give a limit, or gamma < 1")
    return Solution(mdp, gamma, None, exact, policy)


def _soonest(mdp: MDP, is_best: Bools) -> Ints:
    """Of the best actions the ones with the fewest expected steps to the end.

    Where no end can be reached the steps grow for ever, evenly in the long run: so the rounds go on until the
    growth is even.
    """
    steps = growth = np.zeros(mdp.states)
    policy = np.zeros(mdp.states, dtype=np.int64)
    for _ in range(_MOST_SWEEPS):
        before, grew = steps, growth
        policy, steps = _choose(mdp, is_best, before)
        growth = steps - before
        if np.abs(growth - grew).max() <= _SETTLED * max(1.0, steps.max()):
            break
    return policy


def _tied(action_values: Floats) -> Bools:
    """[S, A] True where an action is as good as the best of its state."""
    slack = TIE * max(1.0, np.abs(action_values).max())
    return np.asarray(action_values >= action_values.max(axis=1, keepdims=True) - slack)


def _choose(mdp: MDP, is_best: Bools, steps: Floats) -> tuple[Ints, Floats]:
    """The best action that ends soonest, and the expected number of steps."""
    ending = np.where(is_best, mdp.expected(1.0 + mdp.after(steps)), np.inf)
    fewest = ending.min(axis=1)
    # Rounding must not decide between equals: the first one wins on every machine.
    chosen = (ending <= fewest[:, None] * (1 + TIE)).argmax(axis=1)
    return chosen, fewest
