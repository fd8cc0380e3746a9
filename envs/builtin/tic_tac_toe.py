"""TicTacToe: from a position of the game on, do at least as well as perfect play would against a perfect opponent.

Every position's value is known exactly (5,478 positions can occur; the empty board is a draw). Against a perfect
opponent nobody can do better than that value, so that is what is asked for: a draw where the position is drawn, a win
where it is won. Lost positions are no tasks.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import numpy as np

from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.messages import Message, assistant, user
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import ListTasks, Task

Opponent = Literal["perfect", "random"]
EMPTY: Final = "." * 9
LINES: Final = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
MOST_MISTAKES: Final = 3
"""Messages that are no move; the last of them loses the game."""
_TEST_SHARE: Final = 0.25
_TURN: Final = (
    6,
    3,
    0,
    7,
    4,
    1,
    8,
    5,
    2,
)  # where each square comes from when the board is turned by 90 degrees
_MIRROR: Final = (2, 1, 0, 5, 4, 3, 8, 7, 6)


def to_move(board: str) -> str:
    """Who moves: X begins."""
    return "X" if board.count("X") == board.count("O") else "O"


def free(board: str) -> list[int]:
    """The empty squares, 0 to 8."""
    return [square for square in range(9) if board[square] == "."]


def moved(board: str, square: int) -> str:
    """The board after a move of whoever's turn it is."""
    return board[:square] + to_move(board) + board[square + 1 :]


def winner(board: str) -> str | None:
    """Who has three in a line, if anybody has."""
    return next((board[a] for a, b, c in LINES if board[a] != "." and board[a] == board[b] == board[c]), None)


def is_over(board: str) -> bool:
    """True if somebody has won, or no square is empty."""
    return winner(board) is not None or "." not in board


@functools.cache
def value(board: str) -> int:
    """What whoever moves gets if both play perfectly: 1 a win, 0 a draw, -1 a loss."""
    if winner(board) is not None:
        return -1  # the one who moved before has won
    if "." not in board:
        return 0
    return max(-value(moved(board, square)) for square in free(board))


def best_moves(board: str) -> list[int]:
    """The moves that keep the board's value."""
    return [square for square in free(board) if -value(moved(board, square)) == value(board)]


def drawn(board: str) -> str:
    """The board as text; empty squares show their number."""
    signs = [ch if ch != "." else str(square + 1) for square, ch in enumerate(board)]
    return "\n".join(" | ".join(signs[row : row + 3]) for row in (0, 3, 6))


def expert(_task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """A perfect move."""
    return assistant(str(best_moves(_board_in(history))[0] + 1))


def random_move(_task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """An empty square, drawn uniformly."""
    return assistant(str(int(rng.choice(free(_board_in(history)))) + 1))


def _board_in(history: Sequence[Message]) -> str:
    """The board that the last message from the environment shows."""
    lines = history[-1].text.split("\n")[-3:]
    return "".join(sign if sign in "XO" else "." for line in lines for sign in line.split(" | "))


class TicTacToe(Env):
    """Play a position of Tic-tac-toe to its end.

    A move is a message that is exactly the number of an empty square. Anything else is told so; the third such
    message loses. The reward is 1 if the result is at least the position's value under perfect play of both sides,
    and 0 otherwise, at the end.

    Metrics: `success`; `result` (1 won, 0 drawn, -1 lost). Anchor: the board.

    Args:
        opponent: "perfect" (of several perfect moves, one drawn at random) or "random".
        split: "train" or "test". Positions that are turned or mirrored into each other are in the same split.
    """

    kind: ClassVar[str] = "game"
    reward_range = (0.0, 1.0)
    policies: ClassVar = {"expert": expert, "random": random_move}

    def __init__(self, *, opponent: Opponent = "perfect", split: str | None = None) -> None:
        if opponent not in ("perfect", "random"):
            raise ValueError(f"the opponent is perfect or random, not {opponent!r}")
        super().__init__(tasks=_task_set(), split=split)
        self._opponent = opponent
        self.action_space = ActionSpace(choices=[str(number) for number in range(1, 10)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """The task's position."""
        self._board: str = self.task.metadata["board"]
        self._mistakes = 0
        prompt, _ = super().reset(seed=seed, options=options)
        return prompt, {"anchor": self._board}

    def step(self, action: Message) -> StepResult:
        """Make a move, and let the opponent answer."""
        choice = action.text.strip()
        squares = {str(square + 1): square for square in free(self._board)}
        if action.tool_calls or choice not in squares:
            self._mistakes += 1
            if self._mistakes == MOST_MISTAKES:
                return self._end(-1, "That is no move, for the third time: you lose.")
            return self._go_on("That is no move. Answer with the number of an empty square.")
        me = to_move(self._board)
        self._board = moved(self._board, squares[choice])
        if not is_over(self._board):
            moves = best_moves(self._board) if self._opponent == "perfect" else free(self._board)
            reply = moves[int(self.np_random.integers(len(moves)))]
            self._board = moved(self._board, reply)
        if not is_over(self._board):
            return self._go_on("Your move.")
        won = winner(self._board)
        return self._end(0 if won is None else 1 if won == me else -1, "The game is over.")

    def _go_on(self, said: str) -> StepResult:
        message = user(f"{said}\n{drawn(self._board)}")
        return (message,), 0.0, False, False, {"anchor": self._board}

    def _end(self, result: int, said: str) -> StepResult:
        paid = float(result >= value(self.task.metadata["board"]))
        metrics = {"success": paid, "result": float(result)}
        message = user(f"{said}\n{drawn(self._board)}")
        return (message,), paid, True, False, {"reward_components": {"value": paid}, "metrics": metrics}


@functools.cache
def _task_set() -> ListTasks:
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for board in sorted(reachable()):
        if is_over(board) or value(board) < 0 or len(free(board)) < 3:
            continue
        share = hashlib.sha256(min(_alike(board)).encode()).digest()[0] / 256
        me = to_move(board)
        rules = f"We play Tic-tac-toe. You are {me}. Answer with the number of an empty square."
        prompt = f"{rules}\nYour move.\n{drawn(board)}"
        task = Task(id=board.replace(".", "-"), prompt=(user(prompt),), metadata={"board": board})
        splits["test" if share < _TEST_SHARE else "train"].append(task)
    return ListTasks(**splits)


@functools.cache
def reachable() -> frozenset[str]:
    """Every board that can occur when X begins on an empty one."""
    found, new = {EMPTY}, {EMPTY}
    while new:
        new = {moved(board, square) for board in new if not is_over(board) for square in free(board)} - found
        found |= new
    return frozenset(found)


def _alike(board: str) -> list[str]:
    """The board turned and mirrored in all eight ways."""
    boards = []
    for start in (board, "".join(board[square] for square in _MIRROR)):
        turned = start
        for _ in range(4):
            boards.append(turned)
            turned = "".join(turned[square] for square in _TURN)
    return boards
