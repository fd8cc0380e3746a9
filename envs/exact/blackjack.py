"""Gymnasium's Blackjack as a table, written out from its rules.

Cards come from an endless deck: every rank is as likely as at first, whatever was drawn; ten, jack, queen and king all
count 10, so 10 has the probability 4/13. An ace counts 11 where that does not bust ("usable"), else 1. The dealer shows
one card, and draws to 17 or more, soft 17 included. Source of the game: Sutton and Barto, Reinforcement Learning
(2018), example 5.1.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from turngym.envs.exact.mdp import MDP

STICK, HIT = 0, 1
CARDS = {card: 4 / 13 if card == 10 else 1 / 13 for card in range(1, 11)}
"""How likely each card is."""


class Hand(NamedTuple):
    """What matters of a hand."""

    hard: int
    """The sum with every ace counted 1."""
    has_ace: bool
    """True if there is an ace."""
    natural: bool = False
    """True if it is an ace and a 10, and nothing more."""

    @property
    def usable(self) -> bool:
        """True if an ace counts 11."""
        return self.has_ace and self.hard + 10 <= 21

    @property
    def total(self) -> int:
        """The sum that counts."""
        return self.hard + 10 if self.usable else self.hard

    def plus(self, card: int) -> Hand:
        """The hand with one more card, the third or a later one."""
        return Hand(self.hard + card, self.has_ace or card == 1)


class State(NamedTuple):
    """What decides how the game goes on."""

    hand: Hand
    """The player's."""
    shown: int
    """The dealer's card."""

    @property
    def observation(self) -> tuple[int, int, int]:
        """What Gymnasium shows of it; it does not tell a natural from another soft 21."""
        return self.hand.total, self.shown, int(self.hand.usable)


def dealt(first: int, second: int) -> Hand:
    """Two cards."""
    return Hand(first + second, 1 in (first, second), {first, second} == {1, 10})


@functools.cache
def blackjack(*, natural: bool = False, sab: bool = False) -> MDP:
    """The table of Gymnasium's Blackjack with these arguments. Action 0 sticks, 1 takes a card.

    Args:
        natural: a win with a natural pays 1.5; without effect where `sab` is True.
        sab: the book's rule: a natural wins against everything but a natural.
    """
    start = _start()
    numbers: dict[State, int] = {state: n for n, state in enumerate(sorted(start))}
    states = list(numbers)
    rows: list[tuple[int, int, float, int, float, bool]] = []
    for here, state in enumerate(states):  # grows while it is walked
        for reward, probability in _stick(state, natural=natural, sab=sab).items():
            rows.append((here, STICK, probability, here, reward, True))
        for card, probability in CARDS.items():
            hand = _canonical(state.hand.plus(card))
            if hand.hard > 21:
                rows.append((here, HIT, probability, here, -1.0, True))
                continue
            following = State(hand, state.shown)
            if following not in numbers:
                numbers[following] = len(states)
                states.append(following)
            rows.append((here, HIT, probability, numbers[following], 0.0, False))
    probabilities = np.array([start.get(state, 0.0) for state in states])
    observations = [state.observation for state in states]
    return MDP.of_rows(rows, start=probabilities, actions=2, observations=observations)


def _canonical(hand: Hand) -> Hand:
    """Hands that go on in the same way as one hand: an ace that can never again count 11 is forgotten."""
    return hand._replace(has_ace=hand.usable)


def _start() -> dict[State, float]:
    chances: dict[State, float] = defaultdict(float)
    for first, p in CARDS.items():
        for second, q in CARDS.items():
            for shown, r in CARDS.items():
                chances[State(_canonical(dealt(first, second)), shown)] += p * q * r
    return dict(chances)


@functools.cache
def dealer(shown: int) -> dict[tuple[int, bool], float]:
    """How likely the dealer ends with each (total, natural); 0 is a bust."""
    chances: dict[tuple[int, bool], float] = defaultdict(float)

    def draw(hand: Hand, probability: float) -> None:
        if hand.total >= 17:
            chances[hand.total if hand.total <= 21 else 0, hand.natural] += probability
            return
        for card, q in CARDS.items():
            draw(hand.plus(card), probability * q)

    for hidden, p in CARDS.items():
        draw(dealt(shown, hidden), p)
    return dict(chances)


def _stick(state: State, *, natural: bool, sab: bool) -> dict[float, float]:
    """How likely each reward is when the player takes no more cards."""
    chances: dict[float, float] = defaultdict(float)
    for (total, dealer_natural), probability in dealer(state.shown).items():
        reward = float(np.sign(state.hand.total - total))
        if sab and state.hand.natural and not dealer_natural:
            reward = 1.0
        elif natural and not sab and state.hand.natural and reward == 1.0:
            reward = 1.5
        chances[reward] += probability
    return dict(chances)
