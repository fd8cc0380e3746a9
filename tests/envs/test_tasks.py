from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs import GeneratedTasks, ListTasks, Task, TaskSet, user
from turngym.envs.errors import UnknownTask
from turngym.envs.tasks import draw, get_from, iterate, split_of


def make_task(n: int, id: str = "t") -> Task:
    return Task(id=id, prompt=(user(f"{n}?"),), target=n)


def generated(name: str = "n", seed: int = 0, **sizes) -> GeneratedTasks:
    return GeneratedTasks(
        name,
        lambda rng: make_task(int(rng.integers(10_000))),
        sizes=sizes or {"train": None, "test": 50},
        seed=seed,
    )


def test_content_hash_ignores_the_name_and_nothing_else():
    task = make_task(1, "a")
    assert task.content_hash == make_task(1, "b").content_hash
    for changed in ({"target": 2}, {"prompt": ()}, {"metadata": {"x": 1}}, {"tags": ("x",)}):
        assert task.model_copy(update=changed).content_hash != task.content_hash
    assert task.model_copy(update={"id": "c"}).content_hash == task.content_hash


def test_list_tasks():
    tasks = ListTasks(train=[make_task(1, "a"), make_task(2, "b")], test=[make_task(3, "c")])
    assert isinstance(tasks, TaskSet)
    assert (tasks.splits, tasks.size("train"), tasks.at("train", 1).id) == (("train", "test"), 2, "b")
    assert [task.id for task in iterate(tasks, "train")] == ["a", "b"]
    for wrong in (lambda: tasks.get("z"), lambda: tasks.at("train", 2), lambda: tasks.size("dev")):
        with pytest.raises(UnknownTask):
            wrong()
    with pytest.raises(ValueError, match="occurs twice"):
        ListTasks(train=[make_task(1, "a"), make_task(2, "a")])
    with pytest.raises(ValueError, match="is in the splits"):
        ListTasks(train=[make_task(1, "a")], test=[make_task(1, "b")])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**9), st.integers(0, 49))
def test_generated_splits_are_disjoint_by_content(train, test):
    tasks = generated()
    assert tasks.at("train", train).content_hash != tasks.at("test", test).content_hash


def test_generated_tasks_are_the_same_every_time():
    assert generated().at("train", 7) == generated().at("train", 7)
    assert generated().get("test-7") == generated().at("test", 7)
    assert generated(seed=1).at("train", 7).target != generated().at("train", 7).target
    assert len({generated().at("train", index).target for index in range(30)}) > 25
    assert isinstance(generated(), TaskSet)
    for wrong in ("dev-1", "train", "train-x", "test-50", "", "test-07", "train-٣", "train-" + "9" * 5000):
        with pytest.raises(UnknownTask):
            generated().get(wrong)


def test_draw_is_a_function_of_the_seed_alone():
    tasks = generated()
    np.random.seed(3)
    assert draw(tasks, "train", 5) == draw(tasks, "train", 5)
    assert len({draw(tasks, "train", seed).id for seed in range(20)}) == 20


def test_endless_splits_are_not_listed_whole():
    assert len(list(iterate(generated(), "train", 3))) == 3
    assert len(list(iterate(generated(), "test", 99))) == 50
    with pytest.raises(ValueError, match="endless"):
        next(iterate(generated(), "train"))


class Bare:
    """A task set of somebody else's: nothing but the protocol."""

    def __init__(self, tasks, *endless):
        self._tasks = tasks
        self._endless = endless
        self.splits = (*tasks.splits, *endless)

    def size(self, split):
        return None if split in self._endless else self._tasks.size(split)

    def at(self, split, index):
        return (
            make_task(index, f"{split}/{index}") if split in self._endless else self._tasks.at(split, index)
        )

    def get(self, task_id):
        return make_task(0, task_id) if "/" in task_id else self._tasks.get(task_id)


LISTED = ListTasks(train=[make_task(1, "a"), make_task(2, "b")], test=[make_task(3, "c")])


@pytest.mark.parametrize(
    ("tasks", "train", "test"),
    [
        (LISTED, "b", "c"),
        (generated(), "train-7", "test-7"),
        (Bare(LISTED), "b", "c"),
        (Bare(ListTasks(test=[make_task(3, "c")]), "train"), "train/7", "c"),
    ],
)
def test_a_task_is_had_from_its_own_split_only(tasks, train, test):
    assert isinstance(tasks, TaskSet)
    assert get_from(tasks, "train", train) == tasks.get(train)
    assert get_from(tasks, "test", test) == tasks.get(test)
    with pytest.raises(UnknownTask, match=f"'{test}' is not in split 'train' but in 'test'"):
        get_from(tasks, "train", test)
    with pytest.raises(UnknownTask, match=f"'{train}' is not in split 'test' but in 'train'"):
        get_from(tasks, "test", train)
    for split, task_id in (("dev", train), ("train", "no-such-task")):
        with pytest.raises(UnknownTask):
            get_from(tasks, split, task_id)


def test_where_nobody_can_tell_the_split_the_author_is_told_what_to_write():
    with pytest.raises(UnknownTask, match=r"give the task set a method split_of\(task_id\)"):
        split_of(Bare(LISTED, "more", "most"), "more/1")
