from __future__ import annotations

from collections import Counter

import pytest

from turngym.envs import assistant, user
from turngym.envs.builtin.wordle.solver import best_guess, clues
from turngym.envs.builtin.wordle.words import feedback, words


def test_every_word_is_found_within_six_guesses():
    needed = Counter()
    for word in words():
        known = ()
        while (guess := best_guess(known)) != word:
            known = (*known, (guess, feedback(guess, word)))
            assert len(known) < 6, word
        needed[len(known) + 1] += 1
    assert max(needed) == 5
    assert round(sum(count * number for count, number in needed.items()) / len(words()), 3) == 3.114


@pytest.mark.parametrize("word", ["sheep", "stage", "abuse", "juicy", "zebra", "money"])
def test_the_guess_leaves_the_fewest_words_and_may_be_the_word_if_that_costs_nothing(word):
    known = (("trace", feedback("trace", word)),)
    possible = [one for one in words() if feedback("trace", one) == known[0][1]]
    left = {
        guess: sum(n * n for n in Counter(feedback(guess, one) for one in possible).values())
        for guess in words()
    }
    assert left[best_guess(known)] == min(left.values())
    if min(left[guess] for guess in possible) == min(left.values()):
        assert best_guess(known) in possible
    assert len(possible) > 2


def test_clues_from_words_that_are_not_in_the_list_count_too():
    known = (("zzzaa", feedback("zzzaa", "cedar")), ("qedqr", feedback("qedqr", "cedar")))
    assert feedback(known[1][0], best_guess(known)) == known[1][1]
    assert best_guess(known) == "cedar"


def test_clues_are_read_from_the_conversation():
    history = [
        user("Find a hidden word\nin six guesses."),
        assistant("crane"),
        user("c r a n e\nG - Y - -\n5 guesses left"),
        assistant("eh?"),
        user("That is not a word of five letters; it counts as a guess.\n4 guesses left"),
    ]
    assert clues(history) == (("crane", "G-Y--"),)
