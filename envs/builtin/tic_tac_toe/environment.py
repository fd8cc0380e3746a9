"""TicTacToe: play on from a given position, with the mark whose turn it is.

From the empty board perfect play is a draw, so nobody can be asked to win. What can be asked is a result that is at
least the exact value of the position one starts from: a win where the position is won, a draw where it is even.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np

from turngym.envs.builtin.tic_tac_toe.board import (
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
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.messages import Message, assistant, user
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import ListTasks, Task

Opponent = Literal["minimax", "random"]
TEST_SHARE: Final = 0.25
_SQUARES: Final = tuple("123456789")
_PAID: Final = {1: 1.0, 0: 0.5, -1: 0.0}


def expert(_task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """A perfect move: it keeps the value of the position, and of such moves makes the most of a careless opponent."""
    return assistant(_SQUARES[expert_move(read_board(history))])


def random_move(_task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """A free square, each with the same probability."""
    squares = free(read_board(history))
    return assistant(_SQUARES[squares[int(rng.integers(len(squares)))]])


class TicTacToe(Env):
    """Play tic-tac-toe from a position against an opponent who never errs, or who plays at random.

    A reply is the number of a free square, 1 to 9, white space around it aside. Anything else loses the game. The
    reward is 1 for a win, 0.5 for a draw and 0 for a loss, at the end.

    Tasks are all positions with few marks that can come about, are not over, and are not lost for the side to move; the
    player has that side, so it plays X in some and O in others. Positions that are turned or mirrored images of each
    other are in the same split.

    Metrics: `success`, 1 if the result is at least the position's exact value, which a perfect player always
        reaches and
    against a perfect opponent nobody exceeds; `result`, 1, 0 or −1. Anchor: the position.

    Args:
        opponent: "minimax" draws from its perfect moves, "random" from all free squares; the episode's seed decides.
        most_marks: marks that a starting position has at most; with 0 every game is a whole one, and there is one task.
        split: "train" or "test".

    Raises:
        ValueError: no such opponent, or not 0 ≤ most_marks ≤ 8.
    """

    kind: ClassVar[str] = "game"
    reward_range = (0.0, 1.0)
    max_turns = 5
    policies: ClassVar = {"expert": expert, "random": random_move}

    def __init__(
        self, *, opponent: Opponent = "minimax", most_marks: int = 4, split: str | None = None
    ) -> None:
        if opponent not in get_args(Opponent) or not 0 <= most_marks <= 8:
            raise ValueError(
                f"expected minimax or random, and 0 to 8 marks, got {opponent!r} and {most_marks}"
            )
        super().__init__(tasks=_task_set(most_marks), split=split)
        self.opponent = opponent
        self.action_space = ActionSpace(choices=_SQUARES)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Set the position up."""
        self._board: str = self.task.metadata["board"]
        prompt, _ = super().reset(seed=seed, options=options)
        return prompt, {"anchor": self._board}

    def step(self, action: Message) -> StepResult:
        """Mark a square, and let the opponent mark one."""
        square = None if action.tool_calls else _read(action.text)
        if square is None or square not in free(self._board):
            return self._end("That is not the number of a free square: you lose.", -1)
        self._board = after(self._board, square)
        if is_over(self._board):
            won = winner(self._board) is not None
            return self._end(f"You {'win' if won else 'draw'}.\n{drawn(self._board)}", int(won))
        options = best_moves(self._board) if self.opponent == "minimax" else free(self._board)
        reply = options[int(self.np_random.integers(len(options)))]
        self._board = after(self._board, reply)
        said = f"I take {_SQUARES[reply]}"
        if is_over(self._board):
            lost = winner(self._board) is not None
            return self._end(f"{said} and {'win' if lost else 'draw'}.\n{drawn(self._board)}", -int(lost))
        return (user(f"{said}.\n{drawn(self._board)}"),), 0.0, False, False, {"anchor": self._board}

    def _end(self, said: str, result: int) -> StepResult:
        paid = _PAID[result]
        metrics = {"success": float(result >= self.task.metadata["value"]), "result": float(result)}
        return (user(said),), paid, True, False, {"reward_components": {"result": paid}, "metrics": metrics}


def drawn(board: str) -> str:
    """The board as three lines; free squares show their numbers."""
    squares = [number if mark == "." else mark for number, mark in zip(_SQUARES, board, strict=True)]
    return "\n".join(" ".join(squares[row : row + 3]) for row in (0, 3, 6))


def read_board(history: Sequence[Message]) -> str:
    """The position that the conversation's last message draws."""
    squares = " ".join(history[-1].text.splitlines()[-3:]).split(" ")
    return "".join("." if square in _SQUARES else square for square in squares)


def _read(text: str) -> int | None:
    text = text.strip()
    return _SQUARES.index(text) if text in _SQUARES else None


@functools.cache
def _task_set(most_marks: int) -> ListTasks:
    """A hash also decides the order, so that the first tasks are as mixed as all of them."""
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for board in sorted(positions(most_marks), key=_digest):
        if value(board) >= 0:
            splits[_split_of(board) if most_marks > 0 else "train"].append(_task(board))
    return ListTasks(**{split: tasks for split, tasks in splits.items() if tasks})


def _split_of(board: str) -> str:
    place = int.from_bytes(_digest(canonical(board))[:8], "big") / 2**64
    return "test" if place < TEST_SHARE else "train"


def _digest(board: str) -> bytes:
    return hashlib.sha256(board.encode()).digest()


def _task(board: str) -> Task:
    you = mover(board)
    text = f"Tic-tac-toe: you are {you}, and it is your move. Reply with the number of a free square.\n{drawn(board)}"
    return Task(
        id=board,
        prompt=(user(text),),
        metadata={"board": board, "value": value(board)},
        tags=(f"plays {you}",),
    )
