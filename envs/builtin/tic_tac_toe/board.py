"""Tic-tac-toe solved: positions as strings of nine squares, their exact value, and the best moves.

A position such as "X...O...." is read row by row. X moves first, so the marks tell whose turn it is.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

EMPTY: Final = "." * 9
LINES: Final = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
_TURNED: Final = (6, 3, 0, 7, 4, 1, 8, 5, 2)
_MIRRORED: Final = (2, 1, 0, 5, 4, 3, 8, 7, 6)


def mover(board: str) -> str:
    """Whose turn it is, "X" or "O"."""
    return "X" if board.count("X") == board.count("O") else "O"


def free(board: str) -> tuple[int, ...]:
    """The free squares, 0 to 8."""
    return tuple(square for square, mark in enumerate(board) if mark == ".")


def after(board: str, square: int) -> str:
    """The position after the side to move marks a free square."""
    return board[:square] + mover(board) + board[square + 1 :]


@functools.cache
def winner(board: str) -> str | None:
    """Who has three in a line."""
    for a, b, c in LINES:
        if board[a] != "." and board[a] == board[b] == board[c]:
            return board[a]
    return None


def is_over(board: str) -> bool:
    """True if somebody has won or nothing is free."""
    return winner(board) is not None or "." not in board


@functools.cache
def value(board: str) -> int:
    """What the side to move gets if both play perfectly: 1 a win, 0 a draw, −1 a loss."""
    if winner(board) is not None:
        return -1  # the last move won, and it was the other side's
    return max((-value(after(board, square)) for square in free(board)), default=0)


def best_moves(board: str) -> tuple[int, ...]:
    """The free squares that keep the position's value."""
    return tuple(square for square in free(board) if -value(after(board, square)) == value(board))


@functools.cache
def expert_move(board: str) -> int:
    """The best move that an opponent who marks squares at random would pay for most; the first of equals."""
    return max(best_moves(board), key=lambda square: _expected(after(board, square)))


@functools.cache
def _expected(board: str) -> float:
    """What the expert gets on average when it is the turn of an opponent who marks squares at random."""
    if is_over(board):
        return -float(value(board))
    replies = [after(board, square) for square in free(board)]
    return sum(
        value(reply) if is_over(reply) else _expected(after(reply, expert_move(reply))) for reply in replies
    ) / len(replies)


@functools.cache
def canonical(board: str) -> str:
    """The first in the alphabet of the up to eight positions that turning and mirroring make of one."""
    forms = []
    for _ in range(4):
        board = "".join(board[square] for square in _TURNED)
        forms += [board, "".join(board[square] for square in _MIRRORED)]
    return min(forms)


def positions(most_marks: int) -> Iterator[str]:
    """All positions with at most so many marks that can come about and are not over, by their number of marks."""
    level = {EMPTY}
    for _ in range(most_marks + 1):
        yield from sorted(level)
        following = {after(board, square) for board in level for square in free(board)}
        level = {board for board in following if not is_over(board)}
