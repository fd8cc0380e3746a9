"""Wordle: find a hidden word of five letters; each guess is answered letter by letter."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal, get_args

import numpy as np

from turngym.envs.builtin.wordle.solver import best_guess, clues
from turngym.envs.builtin.wordle.words import LENGTH, feedback, words
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.messages import Message, assistant, user
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import ListTasks, Task

Legal = Literal["letters", "words"]
GUESSES: Final = 6
TEST_SHARE: Final = 0.2
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz")
_PROMPT: Final = """Find a hidden English word of five letters in six guesses. Each guess is answered letter by letter:
G the letter is in this place, Y it is in the word but elsewhere, - it is not in the word (or no further time).
Reply with one word of five letters and nothing else."""


def expert(_task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """The guess that is expected to leave the fewest words of the list; it does not look at the hidden one."""
    return assistant(best_guess(clues(history)))


def random_word(_task: Task, _history: Sequence[Message], rng: np.random.Generator) -> Message:
    """A word of the list, each with the same probability."""
    return assistant(words()[int(rng.integers(len(words())))])


class Wordle(Env):
    """Find a hidden word of five letters in six guesses.

    A guess is a message that is exactly five letters a to z, in either case, white space around it aside. Any other is
    told so and counts as one of the six guesses, so that it never lengthens the game. The reward is 1 if the word is
    found and 0 otherwise, at the end. The sixth guess ends the episode; that is a rule of the task, so it terminates.

    Metrics: `success`; `guesses` (7 for a failure); `illegal` (guesses that were none). Anchor: what is known, in no
    particular order, and the number of guesses left.

    Args:
        legal: what counts as a guess: "letters", any five; "words", only words of the list of hidden words.
        split: "train" or "test", which share no word.

    Raises:
        ValueError: no such rule.
    """

    kind: ClassVar[str] = "game"
    reward_range = (0.0, 1.0)
    max_turns = GUESSES
    policies: ClassVar = {"expert": expert, "random": random_word}

    def __init__(self, *, legal: Legal = "letters", split: str | None = None) -> None:
        if legal not in get_args(Legal):
            raise ValueError(f"legal is 'letters' or 'words', not {legal!r}")
        super().__init__(tasks=_task_set(), split=split)
        self.legal = legal
        self.action_space = ActionSpace(choices=words())

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Nothing is known."""
        self._known: list[str] = []
        self._guesses = self._illegal = 0
        prompt, _ = super().reset(seed=seed, options=options)
        return prompt, {"anchor": self._anchor}

    def step(self, action: Message) -> StepResult:
        """Answer a guess."""
        self._guesses += 1
        guess = None if action.tool_calls else self._read(action.text)
        if guess is None:
            self._illegal += 1
            what = "a word of five letters" if self.legal == "letters" else "a word of the list"
            said, found = f"That is not {what}; it counts as a guess.", False
        else:
            signs = feedback(guess, self.task.target)
            said, found = f"{' '.join(guess)}\n{' '.join(signs)}", guess == self.task.target
            self._known.append(f"{guess} {signs}")
        if not found and self._guesses < GUESSES:
            left = GUESSES - self._guesses
            said = f"{said}\n{left} {'guess' if left == 1 else 'guesses'} left"
            return (user(said),), 0.0, False, False, {"anchor": self._anchor}
        paid = float(found)
        metrics = {
            "success": paid,
            "guesses": float(self._guesses if found else GUESSES + 1),
            "illegal": float(self._illegal),
        }
        return (user(said),), paid, True, False, {"reward_components": {"found": paid}, "metrics": metrics}

    def _read(self, text: str) -> str | None:
        guess = text.strip().lower()
        if len(guess) != LENGTH or not _LETTERS.issuperset(guess) or not text.isascii():
            return None
        return guess if self.legal == "letters" or guess in _known_words() else None

    @property
    def _anchor(self) -> str:
        return f"{GUESSES - self._guesses} left; {', '.join(sorted(set(self._known)))}"


@functools.cache
def _known_words() -> frozenset[str]:
    return frozenset(words())


@functools.cache
def _task_set() -> ListTasks:
    """A hash of the word decides its split and its place in it, so the first tasks are not those that begin with a."""
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for place, word in sorted((_place(word), word) for word in words()):
        name = "test" if place < TEST_SHARE else "train"
        splits[name].append(Task(id=f"{name}-{len(splits[name])}", prompt=(user(_PROMPT),), target=word))
    return ListTasks(**splits)


def _place(word: str) -> float:
    return int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big") / 2**64
