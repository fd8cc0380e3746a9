"""The words of Wordle here, and what an answer to a guess looks like.

The list is our own: about nine hundred common English words, written down for this package.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

LENGTH: Final = 5
PLACED, PRESENT, ABSENT = "G", "Y", "-"
_DIGIT: Final = {ABSENT: 0, PRESENT: 1, PLACED: 2}
KINDS: Final = 3**LENGTH
"""Number of answers that can be written, possible or not."""


@functools.cache
def words() -> tuple[str, ...]:
    """All hidden words, in alphabetical order."""
    return tuple(Path(__file__).with_name("words.txt").read_text(encoding="ascii").split())


def feedback(guess: str, word: str) -> str:
    """The answer to a guess, a sign for each letter: G it is in this place, Y elsewhere, - neither.

    A letter gets as many signs other than - as it occurs in the word. Those in the right place come first, then the
    others from left to right: "geese" for "eerie" is answered -GY-G.
    """
    left = [letter for letter, other in zip(word, guess, strict=True) if letter != other]
    signs = []
    for letter, other in zip(guess, word, strict=True):
        if letter == other:
            signs.append(PLACED)
        elif letter in left:
            signs.append(PRESENT)
            left.remove(letter)
        else:
            signs.append(ABSENT)
    return "".join(signs)


def code(signs: str) -> int:
    """An answer as a number below `KINDS`."""
    return functools.reduce(lambda number, sign: 3 * number + _DIGIT[sign], signs, 0)


@functools.cache
def codes() -> NDArray[np.uint8]:
    """[guess, word] The answer to each word of the list for each hidden word, as its number."""
    letters = np.array([[ord(letter) for letter in word] for word in words()], dtype=np.uint8)
    guesses, hidden = letters[:, None, :], letters[None, :, :]
    placed = guesses == hidden
    numbers = np.zeros((len(letters), len(letters)), dtype=np.uint8)
    for place in range(LENGTH):
        same = guesses[:, :, place, None]
        # A letter is present if the word has more of it outside of its right places than were found to the left.
        there = ((hidden == same) & ~placed).sum(axis=2)
        before = ((guesses[:, :, :place] == same) & ~placed[:, :, :place]).sum(axis=2)
        digit = np.where(placed[:, :, place], 2, (there > before).astype(np.uint8))
        numbers = (3 * numbers + digit).astype(np.uint8)
    return numbers
