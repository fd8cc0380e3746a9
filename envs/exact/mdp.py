"""A game as a table: for every state and action, what may happen, how likely it is, and what it pays.

Shapes are named by letters: S states, A actions, K outcomes, T steps. An outcome is one thing that may happen after one
action in one state, so a table of K outcomes is small where a matrix of S × A × S would be mostly zeros.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium.envs.toy_text.blackjack import BlackjackEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Table = Mapping[int, Mapping[int, Sequence[tuple[float, int, float, bool]]]]
"""Gymnasium's `P`: state → action → (probability, next state, reward, whether it ends)."""


@dataclass(frozen=True, slots=True, eq=False)
class MDP:
    """A finite Markov decision process, in which every action is possible in every state.

    Raises:
        ValueError: the probabilities of an action's outcomes do not sum to 1, or the start's.
    """

    start: Floats
    """[S] How likely each state is at the start."""
    actions: int
    """Number of actions, A."""
    state: Ints
    """[K] The state before."""
    action: Ints
    """[K] What was done in it."""
    next: Ints
    """[K] The state after; of no meaning where the outcome ends the episode."""
    probability: Floats
    """[K] How likely the outcome is, given state and action."""
    reward: Floats
    """[K] What it pays."""
    ends: Bools
    """[K] True where the episode terminates."""
    observations: tuple[Hashable, ...] = ()
    """[S] What the environment shows in each state; default: its number. Several states may look alike."""
    _pair: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_pair", self.state * self.actions + self.action)
        if not self.observations:
            object.__setattr__(self, "observations", tuple(range(self.states)))
        total = np.bincount(self._pair, self.probability, minlength=self.states * self.actions)
        if not np.allclose(total, 1.0) or not np.isclose(self.start.sum(), 1.0):
            raise ValueError("the probabilities of what may happen do not sum to 1")

    @classmethod
    def of_table(cls, table: Table, start: Sequence[float] | Floats) -> MDP:
        """From a table in the form of Gymnasium's `P`, and the probabilities of the start states."""
        rows = [
            (state, action, *outcome)
            for state in range(len(table))
            for action in range(len(table[state]))
            for outcome in table[state][action]
        ]
        return cls.of_rows(rows, start=start, actions=len(table[0]))

    @classmethod
    def of_rows(
        cls,
        rows: Sequence[tuple[int, int, float, int, float, bool]],
        *,
        start: Sequence[float] | Floats,
        actions: int,
        observations: Sequence[Hashable] = (),
    ) -> MDP:
        """From outcomes as (state, action, probability, next state, reward, whether it ends)."""
        state, action, probability, following, reward, ends = zip(*rows, strict=True)
        return cls(
            np.asarray(start, dtype=np.float64),
            actions,
            np.asarray(state, dtype=np.int64),
            np.asarray(action, dtype=np.int64),
            np.asarray(following, dtype=np.int64),
            np.asarray(probability, dtype=np.float64),
            np.asarray(reward, dtype=np.float64),
            np.asarray(ends, dtype=np.bool_),
            tuple(observations),
        )

    @property
    def states(self) -> int:
        """Number of states, S."""
        return len(self.start)

    @property
    def is_deterministic(self) -> bool:
        """True if every action has one outcome that is certain."""
        return bool(np.isclose(self.probability[self.probability > 0], 1.0).all())

    def mean(self, values: Floats) -> float:
        """The average over the start states of values [S], or of the first row of values [T+1, S]."""
        return float(self.start @ (values[0] if values.ndim == 2 else values))

    def start_state(self, observation: Hashable) -> int:
        """The start state that looks like that.

        Raises:
            ValueError: there is no such start state, or there are several.
        """
        found = [s for s in np.flatnonzero(self.start).tolist() if self.observations[s] == observation]
        if len(found) != 1:
            raise ValueError(f"{len(found)} start states look like {observation!r}")
        return int(found[0])

    def with_idle_action(self, *, reward: float, ends: bool) -> MDP:
        """The same game with one more action, which changes nothing, pays `reward`, and ends the episode or not."""
        states = np.arange(self.states)
        return replace(
            self,
            actions=self.actions + 1,
            state=np.concatenate([self.state, states]),
            action=np.concatenate([self.action, np.full(self.states, self.actions)]),
            next=np.concatenate([self.next, states]),
            probability=np.concatenate([self.probability, np.ones(self.states)]),
            reward=np.concatenate([self.reward, np.full(self.states, reward)]),
            ends=np.concatenate([self.ends, np.full(self.states, ends)]),
        )

    def after(self, values: Floats) -> Floats:
        """[K] The value of the state after each outcome: 0 where the episode is over."""
        return np.where(self.ends, 0.0, values[self.next])

    def expected(self, per_outcome: Floats) -> Floats:
        """[S, A] The average over outcomes of something that each outcome has, [K]."""
        summed = np.bincount(self._pair, self.probability * per_outcome, minlength=self.states * self.actions)
        return np.asarray(summed, dtype=np.float64).reshape(self.states, self.actions)

    def best(self, per_outcome: Floats) -> Floats:
        """[S] The greatest of something that each outcome has, [K], over the actions and outcomes of a state."""
        greatest = np.full(self.states, -np.inf)
        possible = self.probability > 0
        np.maximum.at(greatest, self.state[possible], per_outcome[possible])
        return greatest


def mdp_of(env: Any) -> MDP:
    """The table of an environment: of ours that has an `mdp`, of Gymnasium's with `P` and of its Blackjack.

    Raises:
        ValueError: it has no table, or one that leaves something out.
    """
    if isinstance(env, MDP):
        return env
    own = getattr(env, "mdp", None)
    if isinstance(own, MDP):
        return own
    inner = env.unwrapped
    if isinstance(inner, BlackjackEnv):
        from turngym.envs.exact.blackjack import blackjack

        return blackjack(natural=inner.natural, sab=inner.sab)
    if isinstance(inner, TaxiEnv) and inner.fickle_passenger:
        raise ValueError("Taxi's table says nothing about passengers who change their mind")
    if not hasattr(inner, "P") or not hasattr(inner, "initial_state_distrib"):
        raise ValueError(f"{type(inner).__name__} has no table of outcomes")
    return MDP.of_table(inner.P, inner.initial_state_distrib)
