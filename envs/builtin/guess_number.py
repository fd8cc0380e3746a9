"""GuessNumber: find a hidden number by guessing; each answer says whether it is higher or lower than the
guess.

The optimal policy is bisection, and its value is known exactly: over the 16 numbers 0–15, 54/16 = 3.375
guesses on average, so a mean reward of 0.7625. A policy that guesses uniformly and ignores the feedback
succeeds with probability 1 − (15/16)^5 = 0.276 and takes 5.14 guesses (a failure counts as 6).
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.messages import Message, assistant, user
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import ListTasks, Task

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Bisection: the lower middle of what the feedback still allows."""
    low, high = task.metadata["low"], task.metadata["high"]
    for guess, feedback in itertools.pairwise(history):
        number = read_number(guess.text) if guess.role == "assistant" else None
        if number is not None:
            low, high = narrowed(low, high, number, feedback.text)
    return assistant(str((low + high) // 2))


def random_guess(task: Task, _history: Sequence[Message], rng: np.random.Generator) -> Message:
    """A number drawn uniformly from the whole range; feedback is ignored."""
    return assistant(str(rng.integers(task.metadata["low"], task.metadata["high"] + 1)))


class GuessNumber(Env):
    """Find a hidden number; each answer says higher or lower.

    A guess is a message that is exactly an integer in the range. Anything else is told so and counts as a
    wrong guess. The right guess ends the episode with the reward 1 − 0.1·(guesses − 1) (at least 0);
    `max_wrong` wrong guesses end it with 0. Both are rules of the task, so both terminate.

    The split "train" has one task for each number of low … high, the split "test" one for each number of the
    range of the same length that follows: on a single range there is no unseen task.

    Metrics: `success`; `guesses` (max_wrong + 1 for a failure). Anchor: the numbers still possible, such as
    "3-7".

    Args:
        low: least number of the train split.
        high: greatest number of the train split.
        max_wrong: wrong guesses that end the episode.
        split: "train" or "test".

    Raises:
        ValueError: high < low, or max_wrong < 1.
    """

    kind: ClassVar[str] = "game"
    reward_range = (0.0, 1.0)
    policies: ClassVar = {"expert": expert, "random": random_guess}

    def __init__(self, *, low: int = 0, high: int = 15, max_wrong: int = 5, split: str | None = None) -> None:
        if high < low or max_wrong < 1:
            raise ValueError(f"expected low ≤ high and max_wrong ≥ 1, got {low}, {high} and {max_wrong}")
        super().__init__(tasks=_task_set(low, high), split=split)
        self.max_turns = max_wrong
        bounds = self.tasks.at(self.split, 0).metadata
        self.action_space = ActionSpace(choices=[str(n) for n in range(bounds["low"], bounds["high"] + 1)])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Everything is possible again."""
        self._low, self._high = self.task.metadata["low"], self.task.metadata["high"]
        self._wrong = 0
        prompt, _ = super().reset(seed=seed, options=options)
        return prompt, {"anchor": self._anchor}

    def step(self, action: Message) -> StepResult:
        """Compare a guess with the number."""
        number = None if action.tool_calls else read_number(action.text)
        if number == self.task.target:
            paid = max(0.0, 1.0 - 0.1 * self._wrong)
            return self._end(user("correct"), paid, success=1.0, guesses=self._wrong + 1)
        first, last = self.task.metadata["low"], self.task.metadata["high"]
        if number is None or not first <= number <= last:
            feedback = f"not a number from {first} to {last}"
        else:
            feedback = "higher" if self.task.target > number else "lower"
            self._low, self._high = narrowed(self._low, self._high, number, feedback)
        self._wrong += 1
        if self._wrong == self.max_turns:
            return self._end(user(feedback), 0.0, success=0.0, guesses=self._wrong + 1)
        return (user(feedback),), 0.0, False, False, {"anchor": self._anchor}

    def _end(self, message: Message, paid: float, **metrics: float) -> StepResult:
        figures = {name: float(value) for name, value in metrics.items()}
        return (message,), paid, True, False, {"reward_components": {"guessed": paid}, "metrics": figures}

    @property
    def _anchor(self) -> str:
        return f"{self._low}-{self._high}"


def read_number(text: str) -> int | None:
    """The integer that a text is, white space around it aside; None if it is anything else."""
    text = text.strip()
    return int(text) if _NUMBER.fullmatch(text) else None


def narrowed(low: int, high: int, guess: int, feedback: str) -> tuple[int, int]:
    """What of low … high is still possible after a guess and its feedback; other feedback changes nothing."""
    if feedback == "higher":
        return max(low, guess + 1), high
    if feedback == "lower":
        return low, min(high, guess - 1)
    return low, high


@functools.cache
def _task_set(low: int, high: int) -> ListTasks:
    shift = high - low + 1
    return ListTasks(train=_tasks(low, high), test=_tasks(low + shift, high + shift))


def _tasks(low: int, high: int) -> list[Task]:
    prompt = (user(f"Guess my number from {low} to {high}."),)
    return [
        Task(id=f"{low}-{high}:{number}", prompt=prompt, target=number, metadata={"low": low, "high": high})
        for number in range(low, high + 1)
    ]
