"""Which tasks of a split are played: the first so many, those of some ids, those of some tags."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from turngym.envs.tasks import Task, TaskSet, get_from, iterate

_LOOKED_AT_PER_WANTED = 1000  # in an endless split, before giving up on a tag


def select_tasks(
    tasks: TaskSet,
    split: str,
    *,
    limit: int | None = None,
    ids: Sequence[str] | None = None,
    tags: Collection[str] | None = None,
) -> Iterator[Task]:
    """Tasks of a split, in order.

    Args:
        tasks: the task set.
        split: which split.
        limit: the most tasks; None for all of a sized split.
        ids: exactly these of the split, in this order.
        tags: only tasks with at least one of these tags.

    Raises:
        UnknownTask: no such split, or no such id in it.
        ValueError: an endless split without a limit, an id given twice, or no task at all.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"the number of tasks must be at least 1, not {limit}")
    if ids is not None:
        if len(set(ids)) != len(ids):
            raise ValueError(f"a task id is given twice: {', '.join(ids)}")
        candidates: Iterator[Task] = (get_from(tasks, split, task_id) for task_id in ids)
    elif tags is None:
        candidates = iterate(tasks, split, limit)
    else:
        endless = tasks.size(split) is None
        candidates = iterate(
            tasks, split, limit * _LOOKED_AT_PER_WANTED if endless and limit is not None else None
        )
    count = 0
    for task in candidates:
        if tags is None or not set(tags).isdisjoint(task.tags):
            count += 1
            yield task
        if count == limit:
            return
    if not count:
        chosen = f" with a tag among {', '.join(sorted(tags))}" if tags else ""
        raise ValueError(f"there is no task in split {split!r}{chosen}")


def count_tasks(
    tasks: TaskSet,
    split: str,
    *,
    limit: int | None = None,
    ids: Sequence[str] | None = None,
    tags: Collection[str] | None = None,
) -> int:
    """How many tasks `select_tasks` would give."""
    if ids is None and tags is None:
        known = [n for n in (tasks.size(split), limit) if n is not None]
        if known:
            return min(known)
    return sum(1 for _ in select_tasks(tasks, split, limit=limit, ids=ids, tags=tags))
