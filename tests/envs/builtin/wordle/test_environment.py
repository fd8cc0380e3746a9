from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from turngym.envs import ToolCall, assistant, check, make, reference_policy, user
from turngym.envs.builtin.wordle.environment import Wordle
from turngym.envs.builtin.wordle.words import words

ID = "turngym/Wordle-v0"


def task_of(env, word):
    return next(
        task
        for split in env.tasks.splits
        for task in (env.tasks.at(split, n) for n in range(env.tasks.size(split)))
        if task.target == word
    )


def play(env, policy, task, rng):
    env.reset(seed=0, options={"task": task})
    while True:
        _, paid, terminated, truncated, info = env.step(policy(task, tuple(env.history), rng))
        assert not truncated
        if terminated:
            return paid, info["metrics"]


@pytest.mark.parametrize("legal", ["letters", "words"])
def test_the_expert_finds_every_word(legal):
    expert, rng, guesses = reference_policy(ID, "expert"), np.random.default_rng(0), []
    for split, size in (("train", 743), ("test", 172)):
        env = make(ID, split=split, legal=legal)
        assert env.tasks.size(split) == size
        for n in range(size):
            paid, metrics = play(env, expert, env.tasks.at(split, n), rng)
            assert (paid, metrics["success"], metrics["illegal"]) == (1.0, 1.0, 0.0)
            guesses.append(metrics["guesses"])
    assert max(guesses) == 5
    assert np.mean(guesses) == pytest.approx(3.114, abs=1e-3)


def test_the_expert_does_not_look():
    env, expert = make(ID), reference_policy(ID, "expert")
    blind = env.tasks.at("train", 0).model_copy(update={"target": None})
    env.reset(options={"task": "train-3"})
    for _ in range(5):
        move = expert(blind, tuple(env.history), np.random.default_rng(0))
        assert move == expert(env.task, tuple(env.history), np.random.default_rng(0))
        if env.step(move)[2]:
            break


def test_an_episode_word_by_word():
    env = make(ID)
    observation, info = env.reset(options={"task": task_of(env, "sheep")})
    assert len(observation) == 1
    assert "sheep" not in observation[0].text
    assert info["anchor"] == "6 left; "
    observation, *rest, info = env.step(" These\n")
    assert observation == (user("t h e s e\n- G G Y Y\n5 guesses left"),)
    assert (rest, info["anchor"]) == ([0.0, False, False], "5 left; these -GGYY")
    assert env.step("abcde")[0] == (user("a b c d e\n- - - - Y\n4 guesses left"),)
    assert env.step("sheep") == (
        (user("s h e e p\nG G G G G"),), 1.0, True, False,
        {"reward_components": {"found": 1.0}, "metrics": {"success": 1.0, "guesses": 3.0, "illegal": 0.0}},
    )  # fmt: skip


def test_the_sixth_guess_is_the_last_and_may_be_right():
    env = make(ID)
    task = task_of(env, "sheep")
    env.reset(options={"task": task})
    for left in range(5, 0, -1):
        (message,), paid, terminated, truncated, _ = env.step("crane")
        assert message.text.endswith(f"\n{left} guess{'es' if left > 1 else ''} left")
        assert (paid, terminated, truncated) == (0.0, False, False)
    assert env.step("sheep")[1:4] == (1.0, True, False)
    env.reset(options={"task": task})
    for _ in range(5):
        env.step("crane")
    observation, *rest, info = env.step("sleep")
    assert rest == [0.0, True, False]
    assert "sheep" not in observation[0].text
    assert info["metrics"] == {"success": 0.0, "guesses": 7.0, "illegal": 0.0}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cran",
        "cranes",
        "cr ne",
        "crane!",
        "It is crane",
        "c-ane",
        "naïve",
        "12345",
        "sna\u212ae",
        "x" * 9999,
    ],
)
def test_what_is_no_word_counts_as_a_guess(text):
    env = make(ID)
    env.reset(options={"task": "train-0"})
    for number in range(1, 7):
        observation, paid, terminated, truncated, info = env.step(text)
        assert observation[0].text.startswith("That is not a word of five letters; it counts as a guess.")
        assert (paid, terminated, truncated) == (0.0, number == 6, False)
    assert info["metrics"] == {"success": 0.0, "guesses": 7.0, "illegal": 6.0}


def test_only_words_of_the_list_where_that_is_the_rule():
    env = make(ID, legal="words")
    env.reset(options={"task": task_of(env, "sheep")})
    assert env.step("abcde")[0][0].text.startswith("That is not a word of the list")
    assert env.step("crane")[0][0].text.startswith("c r a n e\n")
    with pytest.raises(ValueError, match="legal is 'letters' or 'words'"):
        Wordle(legal="all")


def test_calls_are_answered_and_count_as_a_guess():
    env = make(ID)
    env.reset(options={"task": "train-0"})
    observation, _, over, *_ = env.step(assistant("crane", ToolCall.of("guess", "{}", id="x")))
    assert [message.tool_call_id for message in observation] == ["x", None]
    assert not over


def test_the_anchor_is_what_is_known_in_no_order():
    env, anchors = make(ID), []
    for guesses in (["crane", "sloth"], ["sloth", "crane"], ["crane", "crane"]):
        env.reset(options={"task": "train-0"})
        anchors.append([env.step(guess)[4]["anchor"] for guess in guesses][-1])
    assert anchors[0] == anchors[1] != anchors[2]


def test_no_word_is_in_two_splits_and_the_first_tasks_are_mixed():
    tasks = make(ID).tasks
    found = {split: [tasks.at(split, n).target for n in range(tasks.size(split))] for split in tasks.splits}
    assert not set(found["train"]) & set(found["test"])
    assert sorted(found["train"] + found["test"]) == list(words())
    assert len({word[0] for word in found["test"][:16]}) > 6
    assert not any(word in tasks.at("train", 0).prompt[0].text.lower() for word in found["train"][:50])


def test_the_checks_pass():
    assert [result for result in check(ID, tasks=8) if not result.ok] == []
    check_env(make(ID))


def test_1000_random_episodes():
    env, policy, rng = make(ID), reference_policy(ID, "random"), np.random.default_rng(0)
    wins = sum(play(env, policy, env.tasks.at("train", n % 743), rng)[0] for n in range(1000))
    assert 0 < wins < 20  # 6/915
