"""A program and everything that it starts, as the supervisor that began it sees them."""

from __future__ import annotations

import _signal
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from turngym.sandboxes.inside.walls import Wall

    class Tree(Protocol):
        """What a wall has started (`Child` is the usual one)."""

        pid: int
        """Of the first process; 0 where nobody here needs it."""
        fd: int
        """Readable once the first process has ended."""

        @property
        def alive(self) -> bool:
            """Whether the first process runs."""

        def signal(self, number: int) -> None:
            """Send the first process a signal, unless it has ended."""

        def wait(self) -> End:
            """Wait for the end of the first process."""

        def reap_orphans(self) -> None:
            """Collect what else has ended."""

        def end(self, keep: int = 0) -> bool:
            """End everything that is left, but for the tree of the process `keep`."""

        def close(self) -> None:
            """Close the descriptor."""


KILL = 9


class End:
    """How the first process of a tree ended."""

    def __init__(self, status: int, cpu_s: float, peak_kib: int) -> None:
        self.status = status
        """As wait(2) gives it."""
        self.cpu_s = cpu_s
        self.peak_kib = peak_kib
        """The most memory of one process."""


class Child:
    """A child of this process; what it starts hangs below this one as well, and the wall ends it."""

    def __init__(self, pid: int, wall: Wall) -> None:
        self.pid = pid
        self.fd = os.pidfd_open(pid)
        """Readable once the first process has ended."""
        self._wall = wall
        self._end: End | None = None

    @property
    def alive(self) -> bool:
        """Whether the first process runs."""
        return self._end is None and not select.select([self.fd], [], [], 0)[0]

    def signal(self, number: int) -> None:
        """Send the first process a signal, unless it has ended."""
        try:
            # Not by its number: whoever ends everything may have reaped it.
            _signal.pidfd_send_signal(self.fd, number)
        except ProcessLookupError:
            pass

    def wait(self) -> End:
        """Wait for the end of the first process."""
        if self._end is None:
            try:
                _, status, usage = os.wait4(self.pid, 0)
            except ChildProcessError:  # whoever ended everything has reaped it
                self._end = End(KILL, 0.0, 0)
            else:
                self._end = End(status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
        return self._end

    def reap_orphans(self) -> None:
        """Collect daemons that have ended, without taking the first process's own status from `wait`."""
        while True:
            try:
                info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if info is None or info.si_pid in (0, self.pid):
                return
            os.waitpid(info.si_pid, 0)

    def end(self, keep: int = 0) -> bool:
        """End everything that is left, but for the tree of the process `keep`. False if something outlives that."""
        return self._wall.end_all(keep)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.fd)
