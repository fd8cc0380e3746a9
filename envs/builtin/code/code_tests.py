"""CodeTests: problems with tests, from any data set in a known form; a small set of turngym's own comes along."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Final

from turngym.envs.builtin.code.coding import Coding, task_of
from turngym.envs.builtin.code.forms import problem_of
from turngym.envs.rows import Row, RowTasks, partition, read_rows
from turngym.envs.tasks import Task

OWN_PROBLEMS: Final = Path(__file__).parent / "data" / "problems.jsonl"
_TEST_SHARE: Final = 0.4  # of turngym's own, which are few


@functools.lru_cache(maxsize=32)
def task_set(data: str, test_data: str | None, form: str, test_share: float) -> RowTasks:
    """The problems of a data set as tasks.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ContractError: a row is in both splits.
    """
    to_task = functools.partial(_task, form=form)
    if test_data is not None:
        return RowTasks(to_task, train=read_rows(data, "train"), test=read_rows(test_data, "test"))
    return RowTasks(to_task, **partition(read_rows(data), test_share=test_share))


def _task(row: Row, *, form: str) -> Task:
    return task_of(problem_of(row, form))


class CodeTests(Coding):
    """Write a function or a program that passes hidden tests. See `Coding` for how an episode goes.

    Args:
        data: a JSONL file, a folder of `save_to_disk`, or hf:NAME; default: turngym's own problems.
        test_data: the same for the split "test"; default: a hash of each row puts a part of `data` there.
        form: human_eval, mbpp, apps (and TACO), live_code_bench, or own; "auto" tells it by each row's keys.
        test_share: about this part of `data` is for testing.
        kwargs: those of `Coding`.

    Raises:
        FileNotFoundError: there is no such data.
        BadRow: when a task is taken whose row is none of that form; names the file and the line.
    """

    def __init__(
        self,
        *,
        data: str | Path = OWN_PROBLEMS,
        test_data: str | Path | None = None,
        form: str = "auto",
        test_share: float | None = None,
        **kwargs: Any,
    ) -> None:
        share = test_share if test_share is not None else _TEST_SHARE if data == OWN_PROBLEMS else 0.1
        tasks = task_set(str(data), None if test_data is None else str(test_data), form, share)
        super().__init__(tasks=tasks, **kwargs)
