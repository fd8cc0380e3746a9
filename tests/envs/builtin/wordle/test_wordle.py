from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs import check, make
from turngym.envs.builtin.wordle.environment import GUESSES
from turngym.envs.builtin.wordle.solver import WORDS, _codes, feedback, next_guess
from turngym.evaluation.runner import evaluate

ID = "turngym/Wordle-v0"


@pytest.mark.parametrize(
    ("guess", "hidden", "signs"),
    [
        ("crane", "crane", "+++++"),
        ("crane", "moist", "....."),
        ("speed", "abide", "..?.?"),  # one e of two is marked
        ("speed", "erase", "?.??."),
        ("speed", "steal", "+.+.."),
        ("allee", "apple", "+?..+"),
        ("llama", "label", "+??.."),
        ("eerie", "geese", "?+..+"),
    ],
)
def test_feedback_that_a_person_has_worked_out(guess, hidden, signs):
    assert feedback(guess, hidden) == signs


letters = st.text("abc", min_size=5, max_size=5)


@given(letters, letters)
def test_a_letter_is_marked_as_often_as_both_have_it(guess, hidden):
    signs = feedback(guess, hidden)
    assert [sign == "+" for sign in signs] == [a == b for a, b in zip(guess, hidden, strict=True)]
    marked = Counter(letter for letter, sign in zip(guess, signs, strict=True) if sign != ".")
    assert marked == Counter(guess) & Counter(hidden)
    for place, sign in enumerate(signs):  # of a letter's places that are not right, the first ones are marked
        later = [s for p, s in enumerate(signs) if p > place and guess[p] == guess[place] and s != "+"]
        assert not (sign == "." and "?" in later)


def test_the_solver_s_table_is_the_feedback():
    rng = np.random.default_rng(0)
    for guess, hidden in rng.integers(len(WORDS), size=(2000, 2)):
        signs = feedback(WORDS[guess], WORDS[hidden])
        assert _codes()[guess, hidden] == int("".join(str(".?+".index(sign)) for sign in signs), 3)


def test_the_expert_finds_every_word_in_time():
    counts = Counter()
    for split in ("train", "test"):
        report = evaluate(ID, "expert", split=split)
        assert (report.success.mean, report.failed) == (1.0, {})
        counts[split] = report.episodes
        assert report.mean_turns < 4.0
    assert sum(counts.values()) == len(WORDS) == 716
    assert counts["test"] > 150


def test_what_is_no_guess_counts_as_one():
    env = make(ID)
    env.reset(seed=0)
    word = env.task.target
    for text in ("", "abcd", f"{word}.", f"it is {word}", "ÄÖÜÄÖ"):
        observation, reward, over, *_ = env.step(text)
        assert (reward, over) == (0.0, False)
        assert "nothing else" in observation[0].text
    _, reward, over, _, info = env.step(f" {word.upper()}\n")
    assert (reward, over, info["metrics"]) == (1.0, True, {"success": 1.0, "guesses": GUESSES})


def test_the_sixth_wrong_guess_ends_the_game():
    env = make(ID)
    env.reset(seed=0)
    for number in range(GUESSES):
        observation, reward, over, truncated, info = env.step("zzzzz")
        assert over is (number == GUESSES - 1)
    assert observation[0].text == "zzzzz ....."
    assert (reward, truncated, info["metrics"]["guesses"]) == (0.0, False, 7.0)


def test_ids_do_not_say_the_word():
    env = make(ID)
    assert all(env.tasks.at("train", n).target not in env.tasks.at("train", n).id for n in range(100))


def test_known_words_are_tried_at_last():
    assert next_guess((("zzzzz", "....."), ("crane", "+++++"))) == "crane"


def test_it_keeps_the_laws():
    assert [result for result in check(ID) if not result.ok] == []
