"""Feedback on a guess, and the reference policy's choice of the next one."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

import numpy as np

LENGTH: Final = 5
WORDS: Final = tuple((Path(__file__).parent / "words.txt").read_text(encoding="ascii").split())
"""The hidden words, sorted; a list of turngym's own."""
RIGHT, ELSEWHERE, ABSENT = "+", "?", "."


def feedback(guess: str, hidden: str) -> str:
    """One sign for each letter: + in the right place, ? elsewhere in the word, . not in it.

    A letter is marked as often as the word has it: places that are right first, then from left to right.
    """
    signs = [RIGHT if a == b else ABSENT for a, b in zip(guess, hidden, strict=True)]
    left = [letter for letter, sign in zip(hidden, signs, strict=True) if sign != RIGHT]
    for place, letter in enumerate(guess):
        if signs[place] != RIGHT and letter in left:
            signs[place] = ELSEWHERE
            left.remove(letter)
    return "".join(signs)


@functools.cache
def next_guess(known: tuple[tuple[str, str], ...]) -> str:
    """The word that leaves the fewest possible words on average, of those that can still be right if it ties.

    Args:
        known: guesses so far, each with its feedback. Guesses that are no words of five letters are left out before.
    """
    possible = [number for number, word in enumerate(WORDS) if all(feedback(g, word) == f for g, f in known)]
    if len(possible) <= 2:
        return WORDS[possible[0]] if possible else WORDS[0]
    codes = _codes()[:, possible]
    left = np.array([np.square(np.bincount(row, minlength=3**LENGTH)).sum() for row in codes])
    # Of equals, one that may itself be the word; of those, the first.
    is_possible = np.zeros(len(WORDS), dtype=bool)
    is_possible[possible] = True
    best = min(range(len(WORDS)), key=lambda number: (left[number], not is_possible[number], number))
    return WORDS[best]


@functools.cache
def _codes() -> Any:
    """The feedback of every word (row) on every hidden word (column) as a number from 0 to 242."""
    letters = np.array([[ord(ch) - 97 for ch in word] for word in WORDS], dtype=np.int8)
    count = len(WORDS)
    codes = np.zeros((count, count), dtype=np.int64)
    for row, guess in enumerate(letters):
        is_right = letters == guess
        left = np.zeros((count, 26), dtype=np.int8)
        for place in range(LENGTH):
            np.add.at(left, (np.flatnonzero(~is_right[:, place]), letters[~is_right[:, place], place]), 1)
        code = np.zeros(count, dtype=np.int64)
        for place in range(LENGTH):
            is_elsewhere = ~is_right[:, place] & (left[:, guess[place]] > 0)
            left[is_elsewhere, guess[place]] -= 1
            code = 3 * code + np.where(is_right[:, place], 2, np.where(is_elsewhere, 1, 0))
        codes[row] = code
    return codes
