from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs import ToolCall, assistant, make, reference_policy, user
from turngym.envs.builtin.guess_number import GuessNumber, narrowed, read_number

ID = "turngym/GuessNumber-v0"


def play(env, policy, task, rng):
    """Reward and metrics of one episode."""
    env.reset(seed=0, options={"task": task})
    while True:
        _, paid, terminated, truncated, info = env.step(policy(task, tuple(env.history), rng))
        assert not truncated
        if terminated:
            return paid, info["metrics"]


@pytest.mark.parametrize("split", ["train", "test"])
def test_bisection_takes_exactly_3_375_guesses(split):
    env, expert = make(ID, split=split), reference_policy(ID, "expert")
    results = [play(env, expert, env.tasks.at(split, n), np.random.default_rng(0)) for n in range(16)]
    assert np.mean([metrics["guesses"] for _, metrics in results]) == 3.375
    assert np.mean([paid for paid, _ in results]) == pytest.approx(1 - 0.1 * 2.375)
    assert all(metrics["success"] == 1.0 for _, metrics in results)


def test_no_policy_beats_bisection():
    # Dynamic programming over interval lengths: least total of guesses over all numbers of an interval.
    total = {0: 0, 1: 1}
    for n in range(2, 17):
        total[n] = n + min(total[left] + total[n - 1 - left] for left in range(n))
    assert total[16] / 16 == 3.375


def test_random_guesses_ignore_the_feedback():
    env, policy, rng = make(ID), reference_policy(ID, "random"), np.random.default_rng(1)
    results = [play(env, policy, env.tasks.at("train", n % 16), rng)[1] for n in range(8000)]
    miss = 15 / 16
    success = 1 - miss**5
    guesses = sum(k * miss ** (k - 1) / 16 for k in range(1, 6)) + 6 * miss**5
    assert (round(success, 3), round(guesses, 2)) == (0.276, 5.14)
    assert np.mean([m["success"] for m in results]) == pytest.approx(success, abs=0.02)
    assert np.mean([m["guesses"] for m in results]) == pytest.approx(guesses, abs=0.06)


def test_an_episode_word_by_word():
    env = make(ID)
    observation, info = env.reset(options={"task": "0-15:5"})
    assert observation == (user("Guess my number from 0 to 15."),)
    assert info["anchor"] == "0-15"
    assert env.step("7") == ((user("lower"),), 0.0, False, False, {"anchor": "0-6", "reward_components": {}})
    assert env.step("3") == ((user("higher"),), 0.0, False, False, {"anchor": "4-6", "reward_components": {}})
    assert env.step("5") == (
        (user("correct"),), 0.8, True, False,
        {"reward_components": {"guessed": 0.8}, "metrics": {"success": 1.0, "guesses": 3.0}},
    )  # fmt: skip


@pytest.mark.parametrize(
    "guess", ["", "seven", "16", "-1", "7.0", "07", "7 8", "It is 5", "5!", "٥", "1" * 5000]
)
def test_law_06_invalid_guesses_are_wrong_guesses_and_the_fifth_terminates(guess):
    env = make(ID)
    env.reset(options={"task": "0-15:5"})
    for number in range(1, 6):
        observation, paid, terminated, truncated, info = env.step(guess)
        assert observation == (user("not a number from 0 to 15"),)
        assert (paid, terminated, truncated) == (0.0, number == 5, False)
    assert info["metrics"] == {"success": 0.0, "guesses": 6.0}


def test_the_fifth_guess_may_still_be_right():
    env = make(ID)
    env.reset(options={"task": "0-15:5"})
    for guess in "0123":
        env.step(guess)
    assert env.step(" 5\n")[1:4] == (0.6, True, False)


def test_tool_calls_are_answered_and_count_as_wrong():
    env = make(ID)
    env.reset(options={"task": "0-15:5"})
    observation, paid, over, *_ = env.step(assistant("5", ToolCall.of("guess", "{}", id="x")))
    assert [message.tool_call_id for message in observation] == ["x", None]
    assert (paid, over) == (0.0, False)


def test_splits_ask_about_different_ranges():
    env = GuessNumber(low=-3, high=4)
    assert [task.target for task in (env.tasks.at("train", i) for i in range(8))] == list(range(-3, 5))
    assert env.tasks.at("test", 0).prompt == (user("Guess my number from 5 to 12."),)
    assert "-3" in {env.action_space.sample() for _ in range(200)}
    assert set(GuessNumber(split="test").action_space.choices) == {str(n) for n in range(16, 32)}


def test_other_lengths():
    env = GuessNumber(max_wrong=2)
    env.reset(options={"task": "0-15:5"})
    env.step("0")
    assert env.step("1")[4]["metrics"] == {"success": 0.0, "guesses": 3.0}
    for wrong in ({"high": -1}, {"max_wrong": 0}):
        with pytest.raises(ValueError, match="expected low ≤ high"):
            GuessNumber(**wrong)


def test_rewards_do_not_fall_below_zero():
    env = GuessNumber(max_wrong=12)
    env.reset(options={"task": "0-15:11"})
    for guess in range(11):
        env.step(str(guess))
    assert env.step("11")[1:3] == (0.0, True)


@settings(max_examples=50, deadline=None)
@given(st.integers(-99, 99), st.integers(0, 50), st.data())
def test_the_anchor_always_holds_the_number(low, length, data):
    high = low + length
    number = data.draw(st.integers(low, high))
    bounds = (low, high)
    for guess in data.draw(st.lists(st.integers(low, high), max_size=6)):
        feedback = "higher" if number > guess else "lower" if number < guess else "correct"
        bounds = narrowed(*bounds, guess, feedback)
        assert bounds[0] <= number <= bounds[1]


def test_read_number():
    assert [read_number(text) for text in ("0", "-7", " 12 ", "-0", "1_0", "+3")] == [
        0,
        -7,
        12,
        0,
        None,
        None,
    ]
