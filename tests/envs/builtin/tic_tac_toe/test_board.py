"""The solved game against known counts, and against a plain search."""

from __future__ import annotations

import functools
import itertools

import pytest

from turngym.envs.builtin.tic_tac_toe.board import (
    EMPTY,
    after,
    best_moves,
    canonical,
    expert_move,
    free,
    is_over,
    mover,
    positions,
    value,
    winner,
)


def reachable():
    """All positions that can come about, finished ones included."""
    seen, left = {EMPTY}, [EMPTY]
    while left:
        board = left.pop()
        if not is_over(board):
            new = {after(board, square) for square in free(board)} - seen
            seen |= new
            left += new
    return seen


def test_the_known_counts():
    # Widely published: 5,478 positions, 958 of them finished: 626 won by X, 316 by O, 16 draws.
    boards = reachable()
    finished = [board for board in boards if is_over(board)]
    assert (len(boards), len(finished)) == (5478, 958)
    assert [sum(winner(board) == who for board in finished) for who in ("X", "O", None)] == [626, 316, 16]
    assert set(positions(8)) == boards - set(finished)
    assert len({canonical(board) for board in boards}) == 765


def test_lines_win():
    assert winner("XXXOO....") == "X"
    assert winner("X.OXO.O..") == "O"
    assert winner("XOXXOOOXX") is None
    assert mover("X........") == "O"


def test_values_are_those_of_a_plain_search():
    def search(board, who):
        """What X gets: 1, 0 or −1."""
        won = winner(board)
        if won or "." not in board:
            return {"X": 1, "O": -1, None: 0}[won]
        results = [search(board[:s] + who + board[s + 1 :], "O" if who == "X" else "X") for s in free(board)]
        return max(results) if who == "X" else min(results)

    for board in itertools.islice(positions(8), 0, None, 7):
        if board.count(".") <= 6:
            assert value(board) == search(board, mover(board)) * (1 if mover(board) == "X" else -1)
    assert value(EMPTY) == 0
    assert best_moves(EMPTY) == tuple(range(9))
    assert best_moves("X........") == (4,)  # only the centre holds against a corner


def test_the_expert_never_falls_below_the_value_whatever_the_opponent_does():
    def worst(board):
        """The least that the expert gets, to move at `board`, against every opponent there is."""
        board = after(board, expert_move(board))
        if is_over(board):
            return 1 if winner(board) else 0
        results = []
        for square in free(board):
            reply = after(board, square)
            results.append((-1 if winner(reply) else 0) if is_over(reply) else worst(reply))
        return min(results)

    for board in positions(8):
        assert worst(board) == value(board)


def test_of_perfect_moves_the_expert_takes_the_one_that_pays_most_against_chance():
    @functools.cache
    def average(board, who):
        """What `who`, playing like the expert, gets from here on if the other side plays at random."""
        if is_over(board):
            return 0.0 if winner(board) is None else 1.0 if winner(board) == who else -1.0
        if mover(board) == who:
            return average(after(board, expert_move(board)), who)
        return sum(average(after(board, square), who) for square in free(board)) / len(free(board))

    better = 0
    for board in positions(8):
        pays = {square: average(after(board, square), mover(board)) for square in best_moves(board)}
        assert pays[expert_move(board)] == pytest.approx(max(pays.values()))
        better += pays[expert_move(board)] > pays[best_moves(board)[0]] + 1e-9
    assert better > 100
    assert average(EMPTY, "X") == pytest.approx(191 / 192)  # and never a loss
