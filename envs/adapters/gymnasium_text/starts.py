"""Tasks of games: where an episode starts. A task is the seed of the game's own reset, so it fixes the start and
nothing after it; what luck brings then is up to the seed of the episode.

A game with a single start has, strictly, one task. Its "train" and "test" differ in the seeds of their episodes
only, which says that they are other throws of the same dice, and not that there is anything to generalise to.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from turngym.envs.errors import UnknownTask
from turngym.envs.tasks import GeneratedTasks, ListTasks, Task

TEST_SIZE: Final = 1000
_SPLITS: Final = ("train", "test")


class SeedTasks:
    """A start for each seed: even ones for "train", without end, and the first 1,000 odd ones for "test".

    The starts are drawn as the game draws them, so an average over tasks is an average over the game. Two tasks may
    start alike; they are told apart by the seed.

    Args:
        game: what is played, with its arguments; part of the tasks' content.
    """

    def __init__(self, game: str) -> None:
        self._game = game

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return _SPLITS

    def size(self, split: str) -> int | None:
        """1,000 for "test", None for "train"."""
        self._check(split)
        return TEST_SIZE if split == "test" else None

    def at(self, split: str, index: int) -> Task:
        """Task number `index` of a split."""
        size = self.size(split)
        if index < 0 or (size is not None and index >= size):
            raise UnknownTask(f"split {split!r} has no task {index}")
        seed = 2 * index + _SPLITS.index(split)
        return Task(id=f"{split}-{index}", prompt=(), metadata={"game": self._game, "seed": seed})

    def get(self, task_id: str) -> Task:
        """The task of that id, such as `test-17`."""
        split, _, index = task_id.rpartition("-")
        is_number = index.isdecimal() and len(index) < 19
        if split not in _SPLITS or not is_number or task_id != f"{split}-{int(index)}":
            raise UnknownTask(f"no task {task_id!r}: ids look like train-0")
        return self.at(split, int(index))

    def split_of(self, task_id: str) -> str:
        """Name of the split that the task of that id is in."""
        self.get(task_id)
        return task_id.rpartition("-")[0]

    def _check(self, split: str) -> None:
        if split not in _SPLITS:
            raise UnknownTask(f"no split {split!r}; this task set has {', '.join(_SPLITS)}")


def distinct_starts(game: str, env: gymnasium.Env[Any, Any], count: int, *, test_share: float) -> ListTasks:
    """One task for each of the game's `count` starts, with the least seed that gives it; a hash of the start
    decides the split, so no start is in two."""
    splits: dict[str, list[tuple[int, Task]]] = {name: [] for name in _SPLITS}
    found: set[int] = set()
    seed = 0
    while len(found) < count:
        start = int(env.reset(seed=seed)[0])
        if start not in found:
            found.add(start)
            task = Task(id=f"start-{start}", prompt=(), metadata={"game": game, "seed": seed})
            splits["test" if _share(start) < test_share else "train"].append((start, task))
        seed += 1
    return ListTasks(
        **{name: [task for _, task in sorted(tasks, key=_first)] for name, tasks in splits.items()}
    )


def _first(pair: tuple[int, Task]) -> int:
    return pair[0]


def _share(start: int) -> float:
    return int.from_bytes(hashlib.sha256(str(start).encode()).digest()[:8], "big") / 2**64


@functools.cache
def random_lakes(game: str, size: int) -> GeneratedTasks:
    """A new map for each task, frozen with probability 0.8 per cell; no map is in two splits."""
    generate: Callable[[np.random.Generator], Task] = functools.partial(_lake, game=game, size=size)
    return GeneratedTasks(f"{game}-{size}", generate, sizes={"train": None, "test": TEST_SIZE})


def _lake(rng: np.random.Generator, *, game: str, size: int) -> Task:
    rows = generate_random_map(size=size, seed=int(rng.integers(2**31)))
    arguments: Mapping[str, Any] = {"desc": rows}
    return Task(id="lake", prompt=(), metadata={"game": game, "seed": 0, "arguments": arguments})
