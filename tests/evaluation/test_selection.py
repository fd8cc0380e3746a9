"""Which tasks are played."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from turngym.envs.errors import UnknownTask
from turngym.envs.messages import user
from turngym.envs.tasks import GeneratedTasks, ListTasks, Task
from turngym.evaluation.selection import count_tasks, select_tasks

LISTED = ListTasks(
    test=[
        Task(id=f"t{i}", prompt=(user(str(i)),), tags=("even" if i % 2 == 0 else "odd", "all"))
        for i in range(6)
    ]
)

SPLIT = ListTasks(train=[Task(id="a", prompt=(user("a"),))], test=[Task(id="b", prompt=(user("b"),))])


def number(rng: np.random.Generator) -> Task:
    value = int(rng.integers(10**6))
    return Task(id="x", prompt=(user(str(value)),), tags=("even" if value % 2 == 0 else "odd",))


ENDLESS = GeneratedTasks("numbers", number, sizes={"train": None})


def ids(tasks: Any, split: str, **choice: Any) -> list[str]:
    chosen = [task.id for task in select_tasks(tasks, split, **choice)]
    assert count_tasks(tasks, split, **choice) == len(chosen)
    return chosen


def test_limits_ids_and_tags() -> None:
    assert ids(LISTED, "test") == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert ids(LISTED, "test", limit=2) == ["t0", "t1"]
    assert ids(LISTED, "test", limit=99) == ["t0", "t1", "t2", "t3", "t4", "t5"]
    assert ids(LISTED, "test", ids=["t4", "t1"]) == ["t4", "t1"]
    assert ids(LISTED, "test", tags={"odd"}, limit=2) == ["t1", "t3"]
    assert ids(LISTED, "test", tags=["odd", "even"]) == ids(LISTED, "test")
    assert ids(LISTED, "test", ids=["t4", "t1"], tags=["odd"]) == ["t1"]
    assert len(ids(ENDLESS, "train", limit=5)) == 5
    assert len(ids(ENDLESS, "train", limit=5, tags=["odd"])) == 5


@pytest.mark.parametrize(
    ("tasks", "split", "choice", "error", "message"),
    [
        (ENDLESS, "train", {}, ValueError, "endless: say how many"),
        (ENDLESS, "train", {"tags": ["none"]}, ValueError, "endless: say how many"),
        (LISTED, "test", {"limit": 0}, ValueError, "at least 1"),
        (LISTED, "test", {"tags": ["none"]}, ValueError, "no task in split 'test' with a tag among none"),
        (LISTED, "test", {"ids": ["t1", "t1"]}, ValueError, "given twice"),
        (LISTED, "test", {"ids": ["t9"]}, UnknownTask, "t9"),
        (LISTED, "valid", {}, UnknownTask, "valid"),
        (LISTED, "valid", {"ids": ["t1"]}, UnknownTask, "valid"),
        (SPLIT, "train", {"ids": ["b"]}, UnknownTask, "'b' is not in split 'train' but in 'test'"),
        (ENDLESS, "train", {"ids": ["train-1", "test-1"]}, UnknownTask, "test-1"),
    ],
)
def test_what_cannot_be_chosen(
    tasks: Any, split: str, choice: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ids(tasks, split, **choice)
