"""The SQLite file under the run store: its schema, how it is opened, and what its errors mean."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from turngym.evaluation.errors import DuplicateEpisode, NotAStore, StoreError, StoreFull

_APPLICATION_ID: Final = 0x7475726E  # "turn"
_VERSION: Final = 1

_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE toolsets (id INTEGER PRIMARY KEY, tools BLOB NOT NULL UNIQUE);
CREATE TABLE episodes (
    id INTEGER PRIMARY KEY,
    phase TEXT NOT NULL, step INTEGER NOT NULL, task_id TEXT NOT NULL, sample INTEGER NOT NULL,
    group_id INTEGER NOT NULL, tags TEXT NOT NULL,
    kind TEXT NOT NULL, cause TEXT NOT NULL, attempts INTEGER NOT NULL,
    reward REAL, success REAL, turns INTEGER NOT NULL, action_tokens INTEGER NOT NULL, wall_s REAL NOT NULL,
    toolset INTEGER NOT NULL REFERENCES toolsets (id),
    trajectory BLOB NOT NULL,
    UNIQUE (phase, step, task_id, sample)
);
CREATE TABLE metrics (
    phase TEXT NOT NULL, step INTEGER NOT NULL, name TEXT NOT NULL, value REAL,
    PRIMARY KEY (phase, step, name)
) WITHOUT ROWID;
COMMIT;
"""


def connect(path: Path, *, read_only: bool, full_sync: bool) -> sqlite3.Connection:
    """Open a run store's database, and make it one if it is new.

    Raises:
        StoreError: it cannot be opened, or is not a run store.
    """
    where = f"file:{quote(str(path.absolute()))}" + ("?mode=ro" if read_only else "")
    try:
        db = sqlite3.connect(where, uri=True, isolation_level=None, timeout=30.0, check_same_thread=False)
    except sqlite3.Error as error:
        raise explained(error, path) from error
    try:
        _prepare(db, path, read_only=read_only, full_sync=full_sync)
    except sqlite3.Error as error:
        db.close()
        raise explained(error, path) from error
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, *, read_only: bool, full_sync: bool) -> None:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if application != _APPLICATION_ID:
        if tables or application or version or read_only:
            raise NotAStore(f"{path} is a database, but not a run store of turngym: choose another path")
    elif version > _VERSION:
        raise NotAStore(
            f"{path} was written by a newer turngym (format {version}): update turngym to read it"
        )
    if not read_only:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {'FULL' if full_sync else 'NORMAL'}")
        if application != _APPLICATION_ID:
            db.executescript(_SCHEMA)


def explained(error: sqlite3.Error | OSError | UnicodeEncodeError, path: Path) -> StoreError:
    """The error of ours that says what to do about one of SQLite's or of the file system's."""
    if isinstance(error, UnicodeEncodeError):
        return StoreError(
            f"{path}: a task id, tag or name is not valid Unicode ({error.object!r}): rename it"
        )
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")) or getattr(error, "errno", None) == errno.ENOSPC:
        return StoreFull(
            f"cannot write {path}: {error}. Free some space (or fix the disk) and resume the run: "
            "every episode that was counted is stored"
        )
    if name.startswith("SQLITE_CONSTRAINT"):
        return DuplicateEpisode(
            f"{path} has one of these episodes already ({error}): resume the run instead of repeating it"
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return NotAStore(
            f"{path} is damaged or no run store ({error}): restore it from a copy, or choose another path"
        )
    return StoreError(f"cannot use {path}: {error}")
