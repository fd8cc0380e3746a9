"""Repositories in a folder as tasks.

    NAME/repo/…                  the right sources, with the tests that the agent may see in repo/tests/
    NAME/tasks/TASK.json         what is asked, and how to break the right sources
    NAME/tasks/TASK_hidden.py    a unittest module: fails on the broken sources, passes on the right ones

A task's JSON:

    {"id": "lost-cents", "split": "train", "statement": "…",
     "breaks": [{"file": "ledger/report.py", "right": "…", "wrong": "…"}]}

Each `right` occurs exactly once and is replaced by `wrong`, in order; the reference solution replaces it back.
"""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from turngym.envs.errors import ContractError
from turngym.envs.messages import user
from turngym.envs.tasks import ListTasks, Task

OWN: Final = Path(__file__).parent / "data"
_HOW: Final = (
    "Find out why, and mend it. When you are done, answer without calling a tool. Hidden tests will then check the "
    "behaviour; tests that you change do not count."
)


class Break(BaseModel):
    """One replacement that breaks a file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    right: str
    wrong: str


class Spec(BaseModel):
    """A task's JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    split: Literal["train", "test"]
    statement: str
    breaks: tuple[Break, ...] = Field(min_length=1)


@functools.cache
def repo_tasks(folder: Path = OWN) -> ListTasks:
    """The tasks of all repositories in a folder.

    Raises:
        FileNotFoundError: there is no such folder.
        ContractError: a file is not of the format; names it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}")
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for repository in sorted(path for path in folder.iterdir() if (path / "tasks").is_dir()):
        sources = _sources(repository / "repo")
        for path in sorted((repository / "tasks").glob("*.json")):
            try:
                spec = Spec.model_validate_json(path.read_bytes())
                splits[spec.split].append(_task(repository.name, spec, sources, path))
            except (ValidationError, OSError, SyntaxError) as error:
                raise ContractError(f"{path}: {error}") from error
    if not any(splits.values()):
        raise ContractError(f"{folder} holds no tasks: expected NAME/repo/ and NAME/tasks/*.json")
    return ListTasks(**splits)


def _sources(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


def _task(repository: str, spec: Spec, sources: dict[str, str], path: Path) -> Task:
    broken = dict(sources)
    for one in spec.breaks:
        text = broken.get(one.file)
        if text is None or text.count(one.right) != 1:
            raise ContractError(f"{path}: {one.right[:60]!r} does not occur exactly once in {one.file}")
        broken[one.file] = text.replace(one.right, one.wrong)
        if broken[one.file].count(one.wrong) != 1:
            raise ContractError(
                f"{path}: {one.wrong[:60]!r} does not occur exactly once in {one.file} afterwards"
            )
    hidden = path.with_name(f"{path.stem}_hidden.py").read_text(encoding="utf-8")
    names = test_names(hidden)
    if not names:
        raise ContractError(f"{path}: its hidden tests hold no test method")
    statement = f"The repository `{repository}` has a defect.\n\n{spec.statement}\n\n{_HOW}"
    return Task(
        id=f"{repository}-{spec.id}",
        prompt=(user(statement),),
        target={"hidden": hidden, "tests": names, "breaks": [one.model_dump() for one in spec.breaks]},
        metadata={"files": broken},
        tags=(repository,),
    )


def test_names(source: str) -> list[str]:
    """`Class.method` of every test of a unittest module."""
    return [
        f"{cls.name}.{method.name}"
        for cls in ast.parse(source).body
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name.startswith("test")
    ]
