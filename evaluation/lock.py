"""One writer per run: a lock that the kernel gives back however its holder dies, `kill -9` included."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from turngym.evaluation.errors import StoreLocked

_held: weakref.WeakSet[WriteLock] = weakref.WeakSet()


class WriteLock:
    """Exclusive right to write a run, held until `release` or the death of the process.

    Raises:
        StoreLocked: somebody else holds it; the message has their process id.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 20, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise StoreLocked(
                f"process {holder} is writing this run ({path}): "
                "wait for it, stop it, or choose another folder"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)
        _held.add(self)

    def release(self) -> None:
        """Give it back. Safe to call twice."""
        if self._file >= 0:
            file, self._file = self._file, -1
            os.close(file)
            _held.discard(self)


def _drop_in_child() -> None:
    # A forked child (a worker of some pool) would keep the lock alive after its parent was killed.
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_drop_in_child)
