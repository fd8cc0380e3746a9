"""The expert: guess the word whose answer is expected to leave the fewest words.

    left(guess) = Σ_answer n(answer)² / Σ n          n(answer): words that would be answered so

Among equals a word that may be the hidden one comes first. Every word of the list is found in at most five guesses.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from turngym.envs.builtin.wordle.words import (
    ABSENT,
    KINDS,
    LENGTH,
    PLACED,
    PRESENT,
    code,
    codes,
    feedback,
    words,
)
from turngym.envs.messages import Message

Clue = tuple[str, str]
"""A guess and its answer."""


def clues(history: Sequence[Message]) -> tuple[Clue, ...]:
    """The answers that a conversation holds, each with its guess."""
    found = []
    for message in history:
        lines = [line.replace(" ", "") for line in message.text.splitlines()[:2]]
        if message.role == "user" and len(lines) == 2 and _is_answer(lines[1]):
            found.append((lines[0], lines[1]))
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def best_guess(known: tuple[Clue, ...]) -> str:
    """The guess that is expected to leave the fewest words."""
    possible = _possible(known)
    if len(possible) <= 2:
        return words()[possible[0]]
    answers = codes()[:, possible].astype(np.int64)
    rows = np.arange(len(answers))[:, None] * KINDS
    counts = np.bincount((rows + answers).ravel(), minlength=len(answers) * KINDS).reshape(-1, KINDS)
    left = (counts**2).sum(axis=1) * 2
    left[possible] -= 1  # less than the difference between two sums
    return words()[int(left.argmin())]


def _possible(known: tuple[Clue, ...]) -> list[int]:
    """The places in the list of the words that fit all answers."""
    numbers = {word: place for place, word in enumerate(words())}
    fits = np.ones(len(words()), dtype=np.bool_)
    for guess, signs in known:
        if guess in numbers:
            fits &= codes()[numbers[guess]] == code(signs)
        else:
            fits &= np.array([feedback(guess, word) == signs for word in words()])
    return [int(place) for place in np.flatnonzero(fits)]


def _is_answer(text: str) -> bool:
    return len(text) == LENGTH and set(text) <= {ABSENT, PLACED, PRESENT}
