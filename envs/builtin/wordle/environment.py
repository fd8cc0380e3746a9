"""Wordle as an environment."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from turngym.envs.builtin.wordle.solver import LENGTH, WORDS, feedback, next_guess
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.messages import Message, assistant, user
from turngym.envs.tasks import ListTasks, Task

GUESSES: Final = 6
_WORD: Final = re.compile(rf"[A-Za-z]{{{LENGTH}}}")
_RULES: Final = (
    f"Find my word of {LENGTH} letters in {GUESSES} guesses. Answer with your guess alone. I answer with one sign for "
    "each letter: + it is in the right place, ? it is in the word but elsewhere, . it is not in the word (or not once "
    "more)."
)
_TEST_SHARE: Final = 0.25


def expert(_task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """The word that narrows the list down most."""
    known = [
        (guess.text.strip().lower(), answer.text.split()[-1])
        for guess, answer in itertools.pairwise(history)
        if guess.role == "assistant" and _WORD.fullmatch(guess.text.strip())
    ]
    return assistant(next_guess(tuple(known)))


def random_word(_task: Task, _history: Sequence[Message], rng: np.random.Generator) -> Message:
    """A word of the list, now and then something else."""
    if rng.random() < 0.1:
        return assistant(str(rng.choice(["", "abc", "12345", "the word is crane", "ÄÖÜäö"])))
    return assistant(WORDS[int(rng.integers(len(WORDS)))])


class Wordle(Env):
    """Find a hidden word of five letters in six guesses.

    A guess is a message that is exactly five letters a–z, in either case; it need not be a word of the list. Anything
    else is told so, and counts as a guess. The reward is 1 for the word within six guesses, and 0 otherwise, at the
    end. Both ends are rules of the task.

    Metrics: `success`; `guesses` (7 for a failure). Anchor: the guesses and their answers.

    Args:
        split: "train" or "test": a hash of the word decides.
    """

    kind: ClassVar[str] = "game"
    reward_range = (0.0, 1.0)
    max_turns = GUESSES
    policies: ClassVar = {"expert": expert, "random": random_word}

    def __init__(self, *, split: str | None = None) -> None:
        super().__init__(tasks=_task_set(), split=split)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Nothing is known."""
        self._known: tuple[str, ...] = ()
        self._guesses = 0
        prompt, _ = super().reset(seed=seed, options=options)
        return prompt, {"anchor": ""}

    def step(self, action: Message) -> StepResult:
        """Compare a guess with the word."""
        self._guesses += 1
        guess = action.text.strip().lower()
        if action.tool_calls or not _WORD.fullmatch(action.text.strip()):
            said = f"A guess is {LENGTH} letters and nothing else."
        else:
            said = f"{guess} {feedback(guess, self.task.target)}"
            self._known += (said,)
            if guess == self.task.target:
                return self._end(said, success=1.0)
        if self._guesses == GUESSES:
            return self._end(said, success=0.0)
        return (user(said),), 0.0, False, False, {"anchor": "; ".join(self._known)}

    def _end(self, said: str, *, success: float) -> StepResult:
        metrics = {"success": success, "guesses": float(self._guesses if success else GUESSES + 1)}
        return (
            (user(said),),
            success,
            True,
            False,
            {"reward_components": {"found": success}, "metrics": metrics},
        )


@functools.cache
def _task_set() -> ListTasks:
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for word in WORDS:
        share = hashlib.sha256(f"wordle/{word}".encode()).digest()[0] / 256
        name = hashlib.sha256(word.encode()).hexdigest()[:8]  # an id is no secret: it must not say the word
        splits["test" if share < _TEST_SHARE else "train"].append(
            Task(id=name, prompt=(user(_RULES),), target=word)
        )
    return ListTasks(**splits)
