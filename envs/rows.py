"""Data sets as tasks: rows of JSONL files, of folders that the `datasets` library saved, or of the hub; read lazily.

    rows = read_rows("train.jsonl")                        # a file; a folder of save_to_disk; "hf:openai/gsm8k"
    tasks = RowTasks(to_task, train=rows, test=read_rows("test.jsonl"))
    tasks = RowTasks(to_task, **partition(rows, test_share=0.1))     # where the data has no splits of its own

`to_task(row)` makes a `Task`; its id may be left empty, then the split and the row's number name it.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, overload

from turngym.envs.errors import ContractError, MissingExtra, UnknownTask
from turngym.envs.tasks import Task

Row = Mapping[str, Any]
_HUB: Final = "hf:"
_SAVED: Final = ("dataset_dict.json", "dataset_info.json", "state.json")


class BadRow(ContractError):
    """A row of a data set cannot be read, or is no task; the message names the file and the line."""


def read_rows(source: str | Path, split: str | None = None) -> Sequence[Row]:
    """The rows of a data set.

    Args:
        source: a JSONL file; a folder written by `save_to_disk`; or "hf:NAME" (or "hf:NAME:CONFIG") for a data set
            of the hub. The last two need the extra `datasets`; only the last uses the network.
        split: which split, where the source has several.

    Raises:
        FileNotFoundError: there is no such file or folder.
        ContractError: the split must be named, or there is none of that name.
        MissingExtra: `datasets` is not installed.
    """
    name = str(source)
    if name.startswith(_HUB):
        return _from_hub(name.removeprefix(_HUB), split)
    path = Path(source)
    if path.is_dir():
        if not any((path / mark).exists() for mark in _SAVED):
            raise ContractError(f"{path} is no folder of save_to_disk; name a JSONL file in it")
        return _of_split(_library().load_from_disk(str(path)), split, name)
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no data set {name!r}: name a JSONL file, a folder of save_to_disk, or hf:NAME"
        )
    return JsonLines(path)


def _from_hub(name: str, split: str | None) -> Sequence[Row]:
    repository, _, config = name.partition(":")
    return _of_split(_library().load_dataset(repository, config or None), split, name)


def _of_split(loaded: Any, split: str | None, name: str) -> Sequence[Row]:
    if not isinstance(loaded, Mapping):
        return loaded  # type: ignore[no-any-return]
    if split is None and len(loaded) == 1:
        split = next(iter(loaded))
    if split not in loaded:
        asked = "name a split" if split is None else f"no split {split!r}"
        raise ContractError(f"{name}: {asked}; there are {', '.join(loaded)}")
    return loaded[split]  # type: ignore[no-any-return]


def _library() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtra(
            'data sets other than JSONL files need a library: pip install "turngym[datasets]"'
        ) from error
    return datasets


class JsonLines(Sequence[Row]):
    """The objects of a JSONL file, one on each line. Only the lines' places are kept in memory.

    A line ends with a line feed and with nothing else: U+2028 and its like are text. Blank lines are left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets, self._numbers = array("q"), array("q")
        with path.open("rb") as file:
            offset = 0
            for number, line in enumerate(file, start=1):  # a binary file is split at b"\n" alone
                if line.strip():
                    self._offsets.append(offset)
                    self._numbers.append(number)
                offset += len(line)

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """The row of that number.

        Raises:
            BadRow: its line holds no JSON object.
        """
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        with self.path.open("rb") as file:
            file.seek(self._offsets[index])
            line = file.readline()
        where = f"{self.path}, line {self._numbers[index]}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise BadRow(f"{where}: no JSON: {error}") from error
        if not isinstance(row, dict):
            raise BadRow(f"{where}: a JSON object is expected, not {type(row).__name__}")
        return row

    def place(self, index: int) -> str:
        """File and line of a row, for messages."""
        return f"{self.path}, line {self._numbers[index]}"


class _Some(Sequence[Row]):
    """Some of the rows of a data set, by number."""

    def __init__(self, rows: Sequence[Row], numbers: Sequence[int]) -> None:
        self.rows = rows
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        if isinstance(index, slice):
            return [self.rows[number] for number in self.numbers[index]]
        return self.rows[self.numbers[index]]

    def place(self, index: int) -> str:
        return _place(self.rows, self.numbers[index])


def partition(
    rows: Sequence[Row], *, test_share: float = 0.1, by: Callable[[Row], Any] | None = None
) -> dict[str, Sequence[Row]]:
    """Rows as the splits "train" and "test": a hash of each row's content decides, so that equal rows are together.

    Args:
        rows: the data.
        test_share: about this share is for testing.
        by: what decides instead of the whole row, such as its question alone.
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share is a share, not {test_share}")
    numbers: dict[str, array[int]] = {"train": array("q"), "test": array("q")}
    for number, row in enumerate(rows):
        place = int.from_bytes(_digest(by(row) if by is not None else row)[:8], "big") / 2**64
        numbers["test" if place < test_share else "train"].append(number)
    return {split: _Some(rows, some) for split, some in numbers.items()}


def _digest(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).digest()


class RowTasks:
    """Tasks made of rows when they are asked for.

    Args:
        to_task: makes a task of a row; one with the id "" is called `split-number`.
        splits: the rows of each split.

    Raises:
        ContractError: two splits hold the same row.
    """

    def __init__(self, to_task: Callable[[Row], Task], **splits: Sequence[Row]) -> None:
        self._to_task = to_task
        self._rows = splits
        self._made = lru_cache(maxsize=1024)(self._make)
        seen: dict[bytes, str] = {}
        for split, rows in splits.items():
            for number, row in enumerate(rows):
                if seen.setdefault(_digest(row)[:12], split) != split:
                    raise ContractError(
                        f"{_place(rows, number)}: this row is in split {split!r} and in another"
                    )

    @property
    def splits(self) -> tuple[str, ...]:
        """Names of the splits."""
        return tuple(self._rows)

    def size(self, split: str) -> int:
        """Number of tasks in a split."""
        return len(self._split(split))

    def at(self, split: str, index: int) -> Task:
        """Task number `index` of a split.

        Raises:
            BadRow: its row is no task.
        """
        rows = self._split(split)
        if not 0 <= index < len(rows):
            raise UnknownTask(f"split {split!r} has {len(rows)} tasks; there is no number {index}")
        return self._made(split, index)

    def get(self, task_id: str) -> Task:
        """The task of that id."""
        return self.at(*self._home(task_id))

    def split_of(self, task_id: str) -> str:
        """Name of the split that the task of that id is in."""
        return self._home(task_id)[0]

    def _split(self, split: str) -> Sequence[Row]:
        if split not in self._rows:
            raise UnknownTask(f"no split {split!r}; this task set has {', '.join(self._rows)}")
        return self._rows[split]

    def _make(self, split: str, index: int) -> Task:
        rows = self._rows[split]
        try:
            task = self._to_task(rows[index])
        except (KeyError, TypeError, ValueError, IndexError) as error:
            if isinstance(error, BadRow):
                raise
            why = f"there is no {error}" if isinstance(error, KeyError) else str(error)
            raise BadRow(f"{_place(rows, index)}: {why}") from error
        return task if task.id else task.model_copy(update={"id": f"{split}-{index}"})

    def _home(self, task_id: str) -> tuple[str, int]:
        split, _, number = task_id.rpartition("-")
        if split in self._rows and number.isdecimal() and task_id == f"{split}-{int(number)}":
            index = int(number)
            if index < len(self._rows[split]) and self.at(split, index).id == task_id:
                return split, index
        return self._by_id(task_id)

    def _by_id(self, task_id: str) -> tuple[str, int]:
        if not hasattr(self, "_homes"):
            self._homes: dict[str, tuple[str, int]] = {}
            for split in self.splits:
                for index in range(self.size(split)):
                    self._homes.setdefault(self.at(split, index).id, (split, index))
        if task_id not in self._homes:
            raise UnknownTask(f"no task {task_id!r} in this task set")
        return self._homes[task_id]

    def __iter__(self) -> Iterator[Task]:
        for split in self.splits:
            for index in range(self.size(split)):
                yield self.at(split, index)


def _place(rows: Sequence[Row], index: int) -> str:
    place = getattr(rows, "place", None)
    return place(index) if place is not None else f"row {index}"
