"""The run store: every finished episode of a run and its metrics, in one SQLite file that survives `kill -9`.

`add_episodes` returns when its episodes are committed, and nothing counts an episode before that (law 13).
The database is in WAL mode: readers (a viewer, a report) work while a run writes. Only one process can
write a run.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from turngym.agents.types import Trajectory
from turngym.envs.messages import ToolSpec
from turngym.evaluation import codec
from turngym.evaluation.database import connect, explained
from turngym.evaluation.errors import NotAStore, StoreNotFound
from turngym.evaluation.lock import WriteLock
from turngym.evaluation.records import CurvePoint, EpisodeSummary, StoredEpisode, summarise

STORE_NAME: Final = "run.sqlite"
"""Name of the store within a run's folder."""

_PAGE: Final = 256  # rows read at a time
_SUMMARY: Final = (
    "phase, step, task_id, sample, group_id, tags, kind, cause, attempts,"
    " reward, success, turns, action_tokens, wall_s"
)
_WITH_ERROR: Final = f"{_SUMMARY}, CASE kind WHEN 'failed' THEN trajectory END"
_INSERT: Final = f"INSERT INTO episodes ({_SUMMARY}, toolset, trajectory) VALUES ({', '.join('?' * 16)})"


class RunStore:
    """One run's episodes and metrics.

    Args:
        path: the file, or an existing folder that holds (or will hold) `run.sqlite`.
        create: make it if it is not there.
        full_sync: survive a power cut too, not only the death of the process (slower).
        read_only: take no lock and write nothing, so that a run in progress can be read.

    Raises:
        StoreNotFound: it is not there, and `create` is False or `read_only` True.
        NotAStore: the file is something else, damaged, or of a newer version.
        StoreLocked: another process is writing it.
    """

    def __init__(
        self, path: Path | str, *, create: bool = True, full_sync: bool = False, read_only: bool = False
    ) -> None:
        path = Path(path)
        self.path = path / STORE_NAME if path.is_dir() else path
        if not self.path.exists() and (read_only or not create):
            raise StoreNotFound(f"there is no run store at {self.path}")
        self._lock: WriteLock | None = None
        if not read_only:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._lock = WriteLock(self.path.with_name(self.path.name + ".lock"))
            except OSError as error:
                raise explained(error, self.path) from error
        try:
            self._db = connect(self.path, read_only=read_only, full_sync=full_sync)
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self._toolset_ids: dict[bytes, int] = {}
        self._last_tools: tuple[tuple[ToolSpec, ...], int] | None = None
        self._toolsets: dict[int, tuple[ToolSpec, ...]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give the lock back. Safe to call twice."""
        self._db.close()
        if self._lock is not None:
            self._lock.release()

    def add_episodes(
        self,
        phase: str,
        step: int,
        items: Sequence[Trajectory],
        *,
        groups: Sequence[int] | None = None,
        tags: Sequence[Sequence[str]] | None = None,
    ) -> list[EpisodeSummary]:
        """Commit finished episodes, all or none, and return what may now be counted.

        Args:
            phase: "train", "sft", or "eval/<name>".
            step: optimisation step (0 where there is none).
            items: the trajectories.
            groups: group of each; default 0.
            tags: tags of each one's task; default none.

        Raises:
            DuplicateEpisode: one of that phase, step, task and sample is there already.
            StoreFull: the disk is full; what was committed before is safe.
        """
        summaries = [
            summarise(phase, step, trajectory, group=group, tags=labels)
            for trajectory, group, labels in zip(
                items, groups or [0] * len(items), tags or [()] * len(items), strict=True
            )
        ]
        with self._transaction():
            rows = [
                (*summary.row(), self._toolset_id(trajectory.tools), codec.encode(trajectory))
                for summary, trajectory in zip(summaries, items, strict=True)
            ]
            self._db.executemany(_INSERT, rows)
        return summaries

    def episodes(self, phase: str | None = None, step: int | None = None) -> Iterator[StoredEpisode]:
        """Stream the episodes of a phase and step (None for all), by phase, step, task id and sample."""
        for toolset, blob, *row in self._rows(f"toolset, trajectory, {_SUMMARY}", phase, step):
            try:
                trajectory = codec.decode(blob, self._tools(toolset))
                summary = EpisodeSummary.of_row(row, trajectory.outcome.error)
            except ValueError as error:
                raise self._damaged_episode(row, error) from error
            yield StoredEpisode(summary, trajectory)

    def summaries(self, phase: str | None = None, step: int | None = None) -> Iterator[EpisodeSummary]:
        """Stream the figures of episodes without decoding them; of those that failed, the error is read too."""
        for *row, blob in self._rows(_WITH_ERROR, phase, step):
            try:
                yield EpisodeSummary.of_row(row, None if blob is None else codec.decode_error(blob))
            except ValueError as error:
                raise self._damaged_episode(row, error) from error

    def done(self, phase: str, step: int) -> set[tuple[str, int]]:
        """(task id, sample) of every episode that is stored for a phase and step."""
        rows = self._execute(
            "SELECT task_id, sample FROM episodes WHERE phase = ? AND step = ?", (phase, step)
        )
        return set(rows)

    def delete_episodes(self, phase: str, min_step: int) -> int:
        """Forget the episodes of a phase from a step on; how many there were."""
        with self._transaction():
            return self._db.execute(
                "DELETE FROM episodes WHERE phase = ? AND step >= ?", (phase, min_step)
            ).rowcount

    def curve(self, phase: str) -> list[CurvePoint]:
        """Mean reward and success of each step's scored episodes, in order of steps."""
        rows = self._execute(
            "SELECT step, COUNT(*), COUNT(reward), AVG(reward),"
            # Where completed episodes report no success, the zeros of those that were cut are no rate.
            " CASE WHEN SUM(kind = 'completed' AND success IS NULL) = 0 THEN AVG(success) END"
            " FROM episodes WHERE phase = ? GROUP BY step ORDER BY step",
            (phase,),
        )
        return [CurvePoint(*row) for row in rows]

    def phases(self) -> list[tuple[str, int]]:
        """Every (phase, step) that has episodes, in order."""
        return self._execute("SELECT DISTINCT phase, step FROM episodes ORDER BY phase, step")

    def add_metrics(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """Commit a step's named figures; a figure of the same name is replaced."""
        with self._transaction():
            self._db.executemany(
                "INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)",
                [(phase, step, name, float(value)) for name, value in figures.items()],
            )

    def metrics(self, phase: str) -> list[tuple[int, dict[str, float]]]:
        """The figures of each step of a phase, in order of steps."""
        steps: dict[int, dict[str, float]] = {}
        rows = self._execute("SELECT step, name, value FROM metrics WHERE phase = ? ORDER BY step", (phase,))
        for step, name, value in rows:
            steps.setdefault(step, {})[name] = (
                math.nan if value is None else value
            )  # SQLite keeps NaN as NULL
        return list(steps.items())

    def delete_metrics(self, phase: str, min_step: int) -> int:
        """Forget the figures of a phase from a step on; how many there were."""
        with self._transaction():
            return self._db.execute(
                "DELETE FROM metrics WHERE phase = ? AND step >= ?", (phase, min_step)
            ).rowcount

    def last_step(self, phase: str) -> int | None:
        """The last step of a phase that has figures; None if there is none."""
        step: int | None = self._execute("SELECT MAX(step) FROM metrics WHERE phase = ?", (phase,))[0][0]
        return step

    def set_meta(self, key: str, value: Any) -> None:
        """Commit a value (JSON data) under a name, replacing what was there."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    def get_meta(self, key: str) -> Any:
        """The value under a name; None if there is none.

        Raises:
            NotAStore: what is there is no JSON.
        """
        rows = self._execute("SELECT value FROM meta WHERE key = ?", (key,))
        try:
            return json.loads(rows[0][0]) if rows else None
        except (ValueError, TypeError) as error:
            raise self.damaged(key) from error

    def meta_keys(self, prefix: str) -> list[str]:
        """The names that begin with a prefix, in order."""
        rows = self._execute("SELECT key FROM meta ORDER BY key")
        return [key for (key,) in rows if key.startswith(prefix)]

    def delete_meta(self, key: str) -> None:
        """Forget the value under a name, if there is one."""
        with self._transaction():
            self._db.execute("DELETE FROM meta WHERE key = ?", (key,))

    def damaged(self, key: str) -> NotAStore:
        """The error of a value that is not what was once stored under that name."""
        return NotAStore(
            f"{self.path} is damaged: what it keeps under {key!r} is not what was written. "
            "Restore it from a copy, or choose another folder (--out)"
        )

    def _damaged_episode(self, row: Sequence[Any], error: ValueError) -> NotAStore:
        phase, step, task_id, sample, *_ = row
        return NotAStore(
            f"{self.path}: the episode {(phase, step, task_id, sample)} is damaged ({error}). "
            "Restore it from a copy, or choose another folder (--out)"
        )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            # Tool sets of the transaction went with it.
            self._toolset_ids.clear()
            self._last_tools = None
            if isinstance(error, (sqlite3.Error, UnicodeEncodeError)):
                raise explained(error, self.path) from error
            raise

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise explained(error, self.path) from error

    def _rows(self, columns: str, phase: str | None, step: int | None) -> Iterator[Any]:
        """Rows page by page, so that a reader neither holds them all nor blocks the writer's checkpoints."""
        statement = (
            f"SELECT task_id, sample, {columns} FROM episodes"
            " WHERE phase = ? AND step = ? AND (task_id, sample) > (?, ?)"  # continues on the unique index
            f" ORDER BY task_id, sample LIMIT {_PAGE}"
        )
        for place in self.phases():
            if phase not in (None, place[0]) or step not in (None, place[1]):
                continue
            last = ("", -1)
            while rows := self._execute(statement, (*place, *last)):
                for _, _, *row in rows:
                    yield row
                last = rows[-1][:2]

    def _toolset_id(self, tools: tuple[ToolSpec, ...]) -> int:
        if (
            self._last_tools is not None and self._last_tools[0] is tools
        ):  # environments give the same tuple each time
            return self._last_tools[1]
        blob = codec.encode_tools(tools)
        if blob not in self._toolset_ids:
            self._db.execute("INSERT OR IGNORE INTO toolsets (tools) VALUES (?)", (blob,))
            (row,) = self._db.execute("SELECT id FROM toolsets WHERE tools = ?", (blob,)).fetchall()
            self._toolset_ids[blob] = row[0]
        self._last_tools = (tools, self._toolset_ids[blob])
        return self._toolset_ids[blob]

    def _tools(self, toolset: int) -> tuple[ToolSpec, ...]:
        if toolset not in self._toolsets:
            ((blob,),) = self._execute("SELECT tools FROM toolsets WHERE id = ?", (toolset,))
            self._toolsets[toolset] = codec.decode_tools(blob)
        return self._toolsets[toolset]
