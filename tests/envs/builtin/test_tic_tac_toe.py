import itertools

import numpy as np
import pytest

from turngym.envs import check, make
from turngym.envs.builtin.tic_tac_toe import (
    EMPTY,
    _alike,
    best_moves,
    drawn,
    expert,
    free,
    is_over,
    moved,
    reachable,
    to_move,
    value,
    winner,
)
from turngym.envs.tasks import iterate

ID = "turngym/TicTacToe-v0"


def test_figures_that_are_known():
    assert len(reachable()) == 5478
    over = [board for board in reachable() if is_over(board)]
    wins = [winner(board) for board in over]
    assert (len(over), wins.count("X"), wins.count("O"), wins.count(None)) == (958, 626, 316, 16)
    assert value(EMPTY) == 0
    assert len({min(_alike(board)) for board in reachable()}) == 765


def test_values_agree_with_a_plain_search():
    def search(board, player):
        if winner(board):
            return 1 if winner(board) == player else -1
        if "." not in board:
            return 0
        values = [search(moved(board, square), player) for square in free(board)]
        return max(values) if to_move(board) == player else min(values)

    boards = [board for board in sorted(reachable()) if board.count(".") <= 5]
    for board in boards[::3]:
        assert value(board) == search(board, to_move(board))


def test_the_expert_keeps_the_value_against_every_reply():
    def worst(board, me):
        """The worst result for `me`, who plays the expert's moves."""
        if is_over(board):
            return 0 if winner(board) is None else 1 if winner(board) == me else -1
        if to_move(board) == me:
            return worst(moved(board, best_moves(board)[0]), me)
        return min(worst(moved(board, square), me) for square in free(board))

    for split in ("train", "test"):
        for task in iterate(make(ID).tasks, split):
            board = task.metadata["board"]
            assert worst(board, to_move(board)) >= value(board) >= 0


def test_an_episode():
    env = make(ID)
    observation, info = env.reset(
        seed=0, options={"task": "---------" if "---------" in ids("train") else ids("train")[0]}
    )
    assert "You are" in observation[0].text
    while True:
        observation, reward, over, _, info = env.step(expert(env.task, tuple(env.history), None))
        if over:
            break
        assert info["anchor"] == env._board
    assert (reward, info["metrics"]["success"]) == (1.0, 1.0)


def ids(split):
    return [task.id for task in iterate(make(ID).tasks, split)]


def test_what_is_no_move_is_told_and_the_third_loses():
    env = make(ID)
    env.reset(seed=1)
    taken = next((str(n + 1) for n, ch in enumerate(env._board) if ch != "."), "0")
    for text in (taken, "five"):
        observation, reward, over, *_ = env.step(text)
        assert (reward, over) == (0.0, False)
        assert observation[0].text.startswith("That is no move.")
    _, reward, over, truncated, info = env.step("1 or 2")
    assert (reward, over, truncated, info["metrics"]) == (0.0, True, False, {"success": 0.0, "result": -1.0})


def test_a_draw_is_not_enough_where_a_win_was_there():
    env = make(ID)
    won = [task for task in iterate(env.tasks, "train") if value(task.metadata["board"]) == 1]
    assert won
    results = set()
    for task, seed in itertools.product(won[:40], range(3)):
        env.reset(seed=seed, options={"task": task})
        rng, over = np.random.default_rng(seed), False
        while not over:
            _, reward, over, _, info = env.step(str(int(rng.choice(free(env._board))) + 1))
        results.add((info["metrics"]["result"], reward))
    assert {(1.0, 1.0), (0.0, 0.0), (-1.0, 0.0)} <= results


def test_positions_that_are_alike_are_in_one_split():
    seen = {}
    for split in ("train", "test"):
        for task in iterate(make(ID).tasks, split):
            assert seen.setdefault(min(_alike(task.metadata["board"])), split) == split
    assert min(len(ids("train")), len(ids("test"))) > 200


def test_the_opponent_follows_the_seed_and_can_be_weak():
    def play(seed, **kwargs):
        env = make(ID, **kwargs)
        env.reset(seed=seed, options={"task": ids("train")[0]})
        return env.step(str(free(env._board)[0] + 1))[0]

    assert play(3) == play(3)
    assert len({play(seed, opponent="random") for seed in range(20)}) > 1
    with pytest.raises(ValueError, match="perfect or random"):
        make(ID, opponent="kind")


def test_drawn():
    assert drawn("X...O...X") == "X | 2 | 3\n4 | O | 6\n7 | 8 | X"


def test_it_keeps_the_laws():
    assert [result for result in check(ID) if not result.ok] == []
