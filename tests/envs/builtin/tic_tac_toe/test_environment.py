from __future__ import annotations

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from turngym.envs import ToolCall, assistant, check, make, reference_policy, user
from turngym.envs.builtin.tic_tac_toe.board import canonical, mover, value, winner
from turngym.envs.builtin.tic_tac_toe.environment import TicTacToe, drawn, read_board

ID = "turngym/TicTacToe-v0"


def play(env, policy, task, seed):
    """Reward and metrics of one episode."""
    rng = np.random.default_rng([seed, 1])  # not the stream of the environment
    env.reset(seed=seed, options={"task": task})
    while True:
        _, paid, terminated, truncated, info = env.step(policy(task, tuple(env.history), rng))
        assert not truncated
        if terminated:
            return paid, info["metrics"]


def all_tasks(env):
    return [env.tasks.at(split, n) for split in env.tasks.splits for n in range(env.tasks.size(split))]


@pytest.mark.parametrize("opponent", ["minimax", "random"])
def test_the_expert_succeeds_on_every_task(opponent):
    env = make(ID, opponent=opponent)
    expert = reference_policy(ID, "expert")
    tasks = all_tasks(env)
    results = [play(env, expert, task, seed) for seed, task in enumerate(tasks)]
    assert len(tasks) == 990
    assert {metrics["success"] for _, metrics in results} == {1.0}
    if opponent == "minimax":  # and nobody could do better
        assert all(
            metrics["result"] == task.metadata["value"]
            for task, (_, metrics) in zip(tasks, results, strict=True)
        )
    else:
        assert np.mean([paid for paid, _ in results]) > 0.85


def test_a_perfect_opponent_is_never_beaten_where_the_position_is_even():
    env, rng = make(ID), np.random.default_rng(0)
    policy = reference_policy(ID, "random")
    even = [task for task in all_tasks(env) if task.metadata["value"] == 0]
    results = [
        play(env, policy, even[int(rng.integers(len(even)))], seed)[1]["result"] for seed in range(1000)
    ]
    assert set(results) == {-1.0, 0.0}


def test_a_random_opponent_is_beaten_now_and_then_and_not_by_everybody():
    env, policy = make(ID, opponent="random", most_marks=0), reference_policy(ID, "random")
    task = env.tasks.at("train", 0)
    results = [play(env, policy, task, seed)[1]["result"] for seed in range(3000)]
    # Of random games the first player wins 737/1260, the second 121/420; the rest, 8/63, are drawn.
    assert np.mean([r == 1 for r in results]) == pytest.approx(737 / 1260, abs=0.04)
    assert np.mean([r == -1 for r in results]) == pytest.approx(121 / 420, abs=0.04)


def test_an_episode_word_by_word():
    env = make(ID)
    observation, info = env.reset(seed=0, options={"task": "X...O...."})
    assert observation == (
        user(
            "Tic-tac-toe: you are X, and it is your move. Reply with the number of a free square.\n"
            "X 2 3\n4 O 6\n7 8 9"
        ),
    )
    assert info["anchor"] == "X...O...."
    observation, *rest, info = env.step(" 2\n")
    assert observation == (user("I take 3.\nX X O\n4 O 6\n7 8 9"),)
    assert (rest, info) == ([0.0, False, False], {"anchor": "XXO.O....", "reward_components": {}})
    assert env.step("4")[0] == (user("I take 7 and win.\nX X O\nX O 6\nO 8 9"),)


def test_wins_and_draws_are_paid():
    env = make(ID)
    env.reset(seed=0, options={"task": "XX.OO...."})
    observation, *rest = env.step("3")
    assert observation == (user("You win.\nX X X\nO O 6\n7 8 9"),)
    assert rest == [
        1.0,
        True,
        False,
        {"reward_components": {"result": 1.0}, "metrics": {"success": 1.0, "result": 1.0}},
    ]
    env = make(ID, most_marks=8)
    env.reset(seed=0, options={"task": "XOXOXO..."})
    assert env.step("7")[1:3] == (1.0, True)
    env.reset(seed=0, options={"task": "XOXXOOOX."})
    assert env.step("9")[1] == 0.5


def test_less_than_the_value_is_no_success():
    env = make(ID)
    env.reset(seed=1, options={"task": "XX.OO...."})
    env.step("6")  # the win is missed; the opponent's is blocked
    for _ in range(3):
        result = env.step(str(read_board(env.history).index(".") + 1))
        if result[2]:
            break
    assert result[1] < 1.0
    assert result[4]["metrics"]["success"] == 0.0


@pytest.mark.parametrize("text", ["", "1", "0", "10", "5.", "five", "²", "٢", "2 3", "-2", "2" * 5000])
def test_anything_but_a_free_square_loses(text):
    env = make(ID)
    env.reset(options={"task": "X...O...."})
    observation, paid, terminated, _, info = env.step(text)
    assert observation == (user("That is not the number of a free square: you lose."),)
    assert (paid, terminated) == (0.0, True)
    assert info["metrics"] == {"success": 0.0, "result": -1.0}


def test_calls_are_answered_and_lose():
    env = make(ID)
    env.reset(options={"task": "X...O...."})
    observation, _, over, *_ = env.step(assistant("2", ToolCall.of("mark", "{}", id="x")))
    assert [message.tool_call_id for message in observation] == ["x", None]
    assert over


def test_no_position_or_image_of_it_is_in_two_splits():
    env = make(ID)
    forms = {
        split: {canonical(env.tasks.at(split, n).id) for n in range(env.tasks.size(split))}
        for split in env.tasks.splits
    }
    assert not forms["train"] & forms["test"]
    assert {split: env.tasks.size(split) for split in env.tasks.splits} == {"train": 685, "test": 305}
    for task in all_tasks(env):
        assert value(task.id) >= 0
        assert winner(task.id) is None
        assert f"you are {mover(task.id)}" in task.prompt[0].text
        assert read_board(task.prompt) == task.id
        assert drawn(task.id) in task.prompt[0].text
    assert {task.tags for task in all_tasks(env)} == {("plays X",), ("plays O",)}


def test_the_checks_pass():
    assert [result for result in check(ID, tasks=8) if not result.ok] == []
    check_env(make(ID))


@pytest.mark.parametrize("opponent", ["minimax", "random"])
def test_1000_random_episodes(opponent):
    env, policy = make(ID, opponent=opponent, most_marks=6), reference_policy(ID, "random")
    for seed in range(1000):
        task = env.tasks.at("train", seed % env.tasks.size("train"))
        paid, metrics = play(env, policy, task, seed)
        assert paid in (0.0, 0.5, 1.0)
        assert paid == (metrics["result"] + 1) / 2


@pytest.mark.parametrize("wrong", [{"opponent": "me"}, {"most_marks": 9}, {"most_marks": -1}])
def test_misuse(wrong):
    with pytest.raises(ValueError, match="expected minimax or random"):
        TicTacToe(**wrong)
