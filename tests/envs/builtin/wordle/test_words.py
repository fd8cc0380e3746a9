"""Answers against a plain reference, repeated letters above all."""

from __future__ import annotations

import string
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.builtin.wordle.words import KINDS, code, codes, feedback, words

FEW = st.text("abc", min_size=5, max_size=5)


def reference(guess, word):
    """By counting: of each letter as many signs as the word has, the right places first, then from the left."""
    signs = ["-"] * 5
    for letter in set(guess):
        places = [i for i in range(5) if guess[i] == letter]
        placed = [i for i in places if word[i] == letter]
        elsewhere = [i for i in places if i not in placed][: word.count(letter) - len(placed)]
        for i in placed:
            signs[i] = "G"
        for i in elsewhere:
            signs[i] = "Y"
    return "".join(signs)


@given(FEW, FEW)
def test_feedback_is_that_of_the_reference(guess, word):
    assert feedback(guess, word) == reference(guess, word)


@given(FEW, FEW)
def test_a_letter_has_no_more_signs_than_the_word_has_of_it(guess, word):
    signs = feedback(guess, word)
    told = Counter(letter for letter, sign in zip(guess, signs, strict=True) if sign != "-")
    assert told == Counter(guess) & Counter(word)
    assert (signs == "GGGGG") == (guess == word)


@pytest.mark.parametrize(
    ("guess", "word", "signs"),
    [
        ("crane", "crane", "GGGGG"),
        ("slate", "crane", "--G-G"),
        ("eerie", "geese", "YG--G"),
        ("geese", "eerie", "-GY-G"),
        ("allow", "label", "YYY--"),
        ("speed", "erase", "Y-YY-"),
        ("abbey", "babes", "YYGG-"),
        ("mummy", "mimic", "G-G--"),
    ],
)
def test_repeated_letters(guess, word, signs):
    assert feedback(guess, word) == signs == reference(guess, word)


def test_the_table_is_that_of_the_function():
    table, rng = codes(), np.random.default_rng(0)
    assert table.shape == (len(words()), len(words()))
    for guess, word in rng.integers(len(words()), size=(5000, 2)).tolist():
        assert table[guess, word] == code(feedback(words()[guess], words()[word]))
    assert int(table.max()) == KINDS - 1 == code("GGGGG")


def test_the_list():
    assert len(words()) == 915
    assert list(words()) == sorted(set(words()))
    assert all(len(word) == 5 and set(word) <= set(string.ascii_lowercase) for word in words())
