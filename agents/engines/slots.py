"""Who sits in which row of the key-value cache, and which tokens each row holds.

A row keeps its tokens between the turns of a session, and after the session has ended until somebody else
needs the row: another context that begins alike may copy that beginning. Axis letters: S slots (rows), C
capacity in tokens.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


class SlotTable:
    """Bookkeeping of the cache rows, in numpy; the keys and values themselves are elsewhere.

    `ids[row, :length[row]]` is the context that the row stands for, of which the first `cached[row]` tokens
    have their keys and values in the cache. `length − cached` tokens are still to be run through the model.
    """

    def __init__(self, max_slots: int) -> None:
        self.max_slots = max_slots
        self.ids: IntArray = np.zeros((0, 0), dtype=np.int64)
        self.length: IntArray = np.zeros(0, dtype=np.int64)
        self.cached: IntArray = np.zeros(0, dtype=np.int64)
        self.is_busy: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._last_used: IntArray = np.zeros(0, dtype=np.int64)
        self._sessions: list[str | None] = []
        self._row_of: dict[str, int] = {}
        self._clock = 0

    @property
    def rows(self) -> int:
        """Number of rows in use so far; it grows up to `max_slots`."""
        return len(self._sessions)

    def row_of(self, session: str) -> int | None:
        """The row of a session, or None."""
        return self._row_of.get(session)

    def session_of(self, row: int) -> str | None:
        """The session of a row, or None."""
        return self._sessions[row]

    def take_row(self, session: str) -> int | None:
        """A row for a new session: one that is nobody's, else a new one, else that of the session idle for
        longest.

        None if every row is busy. What the row held before stays until it is overwritten.
        """
        free = [row for row, owner in enumerate(self._sessions) if owner is None]
        if free:
            row = min(free, key=lambda row: int(self._last_used[row]))
        elif self.rows < self.max_slots:
            row = self._add_row()
        else:
            idle = np.flatnonzero(~self.is_busy)
            if not idle.size:
                return None
            row = int(idle[np.argmin(self._last_used[idle])])
            self.release(row)
        self._sessions[row] = session
        self._row_of[session] = row
        return row

    def start(self, row: int, prompt: IntArray, reused: int) -> None:
        """A row begins to work on a context, of which it already holds the first `reused` tokens."""
        self.reserve(len(prompt))
        self.ids[row, : len(prompt)] = prompt
        self.length[row] = len(prompt)
        self.cached[row] = reused
        self.is_busy[row] = True
        self._touch(row)

    def append(self, rows: IntArray, tokens: IntArray) -> None:
        """Add one token to each of these rows."""
        self.reserve(int(self.length[rows].max()) + 1)
        self.ids[rows, self.length[rows]] = tokens
        self.length[rows] += 1

    def stop(self, row: int) -> None:
        """The row's work is done or given up; what is cached stays for the session's next turn."""
        self.is_busy[row] = False
        self.length[row] = self.cached[row]
        self._touch(row)

    def release(self, row: int) -> None:
        """The row becomes nobody's. Its tokens stay, as a beginning that others may copy."""
        session = self._sessions[row]
        if session is not None:
            del self._row_of[session]
            self._sessions[row] = None

    def forget_cached(self, row: int | None = None) -> None:
        """Nothing in this row (in all rows) can be reused any more; contexts being worked on start over."""
        where = slice(None) if row is None else row
        self.cached[where] = 0
        self.length[where] = np.where(self.is_busy[where], self.length[where], 0)

    def common_prefix(self, prompt: IntArray, rows: slice = slice(None)) -> IntArray:
        """How many first tokens of `prompt` the context of each of these rows shares."""
        width = min(len(prompt), self.ids.shape[1])
        differs = self.ids[rows, :width] != prompt[:width]
        differs |= np.arange(width) >= self.length[rows, None]
        shared = np.where(differs.any(axis=1), differs.argmax(axis=1) if width else 0, width)
        return shared.astype(np.int64)

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        for array in (self.ids, self.length, self.cached, self.is_busy, self._last_used):
            array[[a, b]] = array[[b, a]]
        self._sessions[a], self._sessions[b] = self._sessions[b], self._sessions[a]
        for row in (a, b):
            session = self._sessions[row]
            if session is not None:
                self._row_of[session] = row

    def reserve(self, tokens: int) -> None:
        """Make room for contexts of this many tokens."""
        if tokens > self.ids.shape[1]:
            capacity = max(tokens, 2 * self.ids.shape[1])
            self.ids = _enlarge(self.ids, (self.rows, capacity))

    def _add_row(self) -> int:
        rows = self.rows + 1
        self._sessions.append(None)
        self.ids = _enlarge(self.ids, (rows, self.ids.shape[1]))
        self.length = _enlarge(self.length, (rows,))
        self.cached = _enlarge(self.cached, (rows,))
        self.is_busy = _enlarge(self.is_busy, (rows,))
        self._last_used = _enlarge(self._last_used, (rows,))
        return rows - 1

    def _touch(self, row: int) -> None:
        self._clock += 1
        self._last_used[row] = self._clock


def _enlarge(array: NDArray[Scalar], shape: tuple[int, ...]) -> NDArray[Scalar]:
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, size) for size in array.shape)] = array
    return larger
