"""What an environment asks: a frozen `Task`, and task sets with named splits that never overlap."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from turngym.envs.errors import UnknownTask
from turngym.envs.messages import Message


class TaskLimits(BaseModel):
    """Limits that a task asks the runner for; the runner's own limits still hold (the smaller wins)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_turns: int | None = Field(default=None, gt=0)
    """Turns after which the runner truncates."""
    max_tokens: int | None = Field(default=None, gt=0)
    """Tokens of one episode's context."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Wall time of one episode."""


class Task(BaseModel):
    """One question, frozen. `target` is hidden: never in a prompt, an observation or the agent's sandbox."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Stable name, unique within its task set."""
    prompt: tuple[Message, ...]
    """The opening messages."""
    target: Any = None
    """What grading compares with (JSON data)."""
    metadata: Mapping[str, Any] = Field(default_factory=dict)
    """Anything else that the environment needs (JSON data)."""
    tags: tuple[str, ...] = ()
    """Labels to filter and report by."""
    limits: TaskLimits = TaskLimits()
    """Limits particular to this task."""

    @cached_property
    def content_hash(self) -> str:
        """16 hex digits over everything but the id: equal for equal tasks, whatever they are called."""
        data = self.model_dump(mode="json", exclude={"id"})
        text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Pydantic's copy, with a hash of its own where more than the id changes."""
        copied = super().model_copy(update=update, deep=deep)
        if update and update.keys() - {"id"}:
            copied.__dict__.pop("content_hash", None)
        return copied


@runtime_checkable
class TaskSet(Protocol):
    """A source of tasks with named, disjoint splits."""

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        ...

    def size(self, split: str) -> int | None:
        """Number of tasks in a split; None if endless."""
        ...

    def at(self, split: str, index: int) -> Task:
        """Task number `index` of a split, the same one every time."""
        ...

    def get(self, task_id: str) -> Task:
        """The task of that id, whichever split it is in."""
        ...


def iterate(tasks: TaskSet, split: str, limit: int | None = None) -> Iterator[Task]:
    """The first `limit` tasks of a split, in order (all where limit is None and the split is sized)."""
    size = tasks.size(split)
    if size is None and limit is None:
        raise ValueError(f"split {split!r} is endless: say how many tasks to take")
    count = min(n for n in (size, limit) if n is not None)
    for index in range(count):
        yield tasks.at(split, index)


def draw(tasks: TaskSet, split: str, seed: int) -> Task:
    """The task that `seed` alone selects from a split."""
    size = tasks.size(split)
    index = int(np.random.default_rng(seed).integers(size if size is not None else 2**31))
    return tasks.at(split, index)


@runtime_checkable
class KnowsSplits(Protocol):
    """A task set that can tell the split of an id without listing its tasks."""

    def split_of(self, task_id: str) -> str:
        """Name of the split that the task of that id is in.

        Raises:
            UnknownTask: no task of that id.
        """
        ...


def split_of(tasks: TaskSet, task_id: str) -> str:
    """Name of the split that a task is in.

    A task set says it itself (`KnowsSplits`), or its sized splits are searched; what is in none of them is in
    the endless one.

    Raises:
        UnknownTask: no task of that id, or there are several endless splits and nobody to tell which.
    """
    if isinstance(tasks, KnowsSplits):
        return tasks.split_of(task_id)
    tasks.get(task_id)
    endless = [split for split in tasks.splits if tasks.size(split) is None]
    for split in tasks.splits:
        if split not in endless and any(task.id == task_id for task in iterate(tasks, split)):
            return split
    if len(endless) != 1:
        raise UnknownTask(
            f"nobody can tell the split of task {task_id!r}: give the task set a method split_of(task_id)"
        )
    return endless[0]


def get_from(tasks: TaskSet, split: str, task_id: str) -> Task:
    """The task of that id, if it is in that split: training never meets a task of the test split by its name.

    Raises:
        UnknownTask: no such split, no task of that id, or one of another split.
    """
    _check_split(tasks, split)
    home = split_of(tasks, task_id)
    if home != split:
        raise UnknownTask(
            f"task {task_id!r} is not in split {split!r} but in {home!r}: name another task, or that split"
        )
    return tasks.get(task_id)


def _check_split(tasks: TaskSet, split: str) -> None:
    if split not in tasks.splits:
        raise UnknownTask(f"no split {split!r}; this task set has {', '.join(tasks.splits)}")


class ListTasks:
    """Tasks held in memory, split by name; refuses splits that share a task."""

    def __init__(self, **splits: Iterable[Task]) -> None:
        self._splits: dict[str, tuple[Task, ...]] = {name: tuple(tasks) for name, tasks in splits.items()}
        self._by_id: dict[str, Task] = {}
        self._split_of: dict[str, str] = {}
        seen: dict[str, str] = {}
        for name, tasks in self._splits.items():
            for task in tasks:
                if task.id in self._by_id:
                    raise ValueError(f"task id {task.id!r} occurs twice")
                if seen.setdefault(task.content_hash, name) != name:
                    raise ValueError(
                        f"task {task.id!r} is in the splits {seen[task.content_hash]!r} and {name!r}"
                    )
                self._by_id[task.id] = task
                self._split_of[task.id] = name

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._splits)

    def size(self, split: str) -> int:
        """Number of tasks in a split."""
        _check_split(self, split)
        return len(self._splits[split])

    def at(self, split: str, index: int) -> Task:
        """Task number `index` of a split."""
        _check_split(self, split)
        tasks: Sequence[Task] = self._splits[split]
        if not 0 <= index < len(tasks):
            raise UnknownTask(f"split {split!r} has {len(tasks)} tasks; there is no number {index}")
        return tasks[index]

    def get(self, task_id: str) -> Task:
        """The task of that id."""
        if task_id not in self._by_id:
            raise UnknownTask(f"no task {task_id!r} in this task set")
        return self._by_id[task_id]

    def split_of(self, task_id: str) -> str:
        """Name of the split that the task of that id is in."""
        self.get(task_id)
        return self._split_of[task_id]


class GeneratedTasks:
    """Endless or sized procedural tasks whose splits are disjoint by construction.

    `generate(rng)` makes a task's content; a hash of that content decides the one split that it belongs to,
    so a question can never be in two of them. `at(split, i)` draws candidates from a generator seeded by
    (seed, split, i) until one belongs to the split: the same task every time, on every machine.
    """

    def __init__(
        self,
        name: str,
        generate: Callable[[np.random.Generator], Task],
        *,
        sizes: Mapping[str, int | None],
        seed: int = 0,
    ) -> None:
        self._name = name
        self._generate = generate
        self._sizes = dict(sizes)
        self._seed = seed

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._sizes)

    def size(self, split: str) -> int | None:
        """Number of tasks in a split; None if endless."""
        _check_split(self, split)
        return self._sizes[split]

    def at(self, split: str, index: int) -> Task:
        """Task number `index` of a split."""
        size = self.size(split)
        if index < 0 or (size is not None and index >= size):
            raise UnknownTask(f"split {split!r} has {size} tasks; there is no number {index}")
        key = hashlib.sha256(f"{self._name}/{self._seed}/{split}/{index}".encode()).digest()
        rng = np.random.default_rng(int.from_bytes(key[:16], "little"))
        home = self.splits.index(split)
        for _ in range(10_000):
            task = self._generate(rng)
            if int(task.content_hash, 16) % len(self.splits) == home:
                return task.model_copy(update={"id": f"{split}-{index}"})
        raise RuntimeError(
            f"the generator of {self._name} never made a task for split {split!r}: too few distinct ones"
        )

    def get(self, task_id: str) -> Task:
        """The task of that id, such as `test-17`."""
        return self.at(*self._place(task_id))

    def split_of(self, task_id: str) -> str:
        """Name of the split that the task of that id is in."""
        split, index = self._place(task_id)
        self.at(split, index)  # whether there is one of that number
        return split

    def _place(self, task_id: str) -> tuple[str, int]:
        """Split and number of an id, which has one spelling: test-17, never test-017."""
        split, _, index = task_id.rpartition("-")
        is_number = index.isdecimal() and len(index) < 19
        if split in self._sizes and is_number and task_id == f"{split}-{int(index)}":
            return split, int(index)
        raise UnknownTask(f"no task {task_id!r}: ids look like {self.splits[0]}-0")
