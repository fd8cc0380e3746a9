"""Control groups that bound the memory and the number of processes of a slot, on version 1 and 2 alike.

Groups are named after the slot's number and live below the group of this process, so that limits around it keep
holding. A group is found again, and emptied, by whoever takes the slot next.

Source: Documentation/admin-guide/cgroup-v1/memory.rst, pids.rst and cgroup-v2.rst of the kernel.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.limits import MIB, Limits

OVERHEAD_MIB: Final = 24
"""Memory of a group beyond what programs may use, for the supervisor's own pages."""

_NAME: Final = "turngym"
_COPIES: Final = 3  # as chunks, as one piece, and in a frame


@dataclass(frozen=True, slots=True)
class _Mounts:
    """Folders in which groups of ours can be made."""

    memory: Path
    pids: Path
    unified: bool


class SlotGroup:
    """The group (or, on version 1, the two groups) of one slot.

    Raises:
        BlockingIOError: another process of this machine has it.
    """

    def __init__(self, mounts: _Mounts, number: int) -> None:
        name = f"{_NAME}-{number}"
        self._unified = mounts.unified
        self._memory = mounts.memory / name
        self._pids = mounts.pids / name
        self._set: tuple[int, int] | None = None
        self.paths = [self._memory] if self._unified else [self._memory, self._pids]
        """Its folders."""
        self._lock_fds: list[int] = []
        try:
            for path in self.paths:
                self._lock_fds.append(_own(path))
                empty(path)
        except BaseException:
            self._unlock()
            raise
        self.join_fds = [os.open(path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for path in self.paths]
        """Whoever writes 0 to these moves in."""
        events = "memory.events" if self._unified else "memory.oom_control"
        self.oom_fd = os.open(self._memory / events, os.O_RDONLY | os.O_CLOEXEC)
        """Counts processes that were killed for want of memory."""
        peak = "memory.peak" if self._unified else "memory.max_usage_in_bytes"
        try:
            self.peak_fd = os.open(self._memory / peak, os.O_RDWR | os.O_CLOEXEC)
            """The most memory since the last `prepare`; -1 where the kernel does not say."""
            os.write(self.peak_fd, b"0")
        except OSError:  # a kernel without it, or whose figure cannot be reset
            self.peak_fd = -1

    def prepare(self, limits: Limits, own_processes: int) -> None:
        """Set the limits for the next sandbox, and forget the figures of the last.

        Args:
            limits: of programs.
            own_processes: how many of ours are in the group beside them.

        The supervisor holds what programs write until they end, so there is room for that on top.

        Raises:
            SandboxUnavailable: the kernel refuses.
        """
        wanted = (limits.memory_mib + output_mib(limits) + OVERHEAD_MIB, limits.processes + own_processes)
        try:
            if self._set != wanted:
                self._limit(*wanted)
                self._set = wanted
            if self.peak_fd >= 0:
                os.write(self.peak_fd, b"0")
        except OSError as error:
            raise SandboxUnavailable(f"cannot set the limits of {self._memory}: {error.strerror}") from error

    def count(self) -> int:
        """How many processes are in it."""
        return max(len((path / "cgroup.procs").read_text().split()) for path in self.paths)

    def oom_kills(self) -> int:
        """How many processes the kernel has ended in it for want of memory, ever."""
        lines = os.pread(self.oom_fd, 4096, 0).splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(b"oom_kill "))

    def close(self) -> None:
        """Close the descriptors, and remove the groups if they are empty."""
        for fd in (*self.join_fds, self.oom_fd, self.peak_fd):
            if fd >= 0:
                os.close(fd)
        for path in self.paths:
            with contextlib.suppress(OSError):  # the launcher may have been first
                path.rmdir()
        self._unlock()

    def _unlock(self) -> None:
        for fd in self._lock_fds:
            os.close(fd)
        self._lock_fds = []

    def _limit(self, memory_mib: int, processes: int) -> None:
        amount = memory_mib * MIB
        if self._unified:
            (self._memory / "memory.max").write_text(str(amount))
            _write_if_there(self._memory / "memory.swap.max", "0")
            (self._pids / "pids.max").write_text(str(processes))
            return
        # With swap accounting the limit of both together must never be below that of memory alone.
        both = self._memory / "memory.memsw.limit_in_bytes"
        if both.exists():
            both.write_text("-1")
        (self._memory / "memory.limit_in_bytes").write_text(str(amount))
        if both.exists():
            both.write_text(str(amount))
        _write_if_there(self._memory / "memory.swappiness", "0")
        (self._pids / "pids.max").write_text(str(processes))


def _own(path: Path) -> int:
    """Make a group, and lock it: a descriptor that holds the lock.

    Raises:
        BlockingIOError: another process has it.
    """
    while True:
        path.mkdir(exist_ok=True)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # its last owner has just removed it
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.exists(path) and os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


def output_mib(limits: Limits) -> int:
    """Memory that a supervisor needs for what programs write."""
    return -(-_COPIES * (limits.stdout_bytes + limits.stderr_bytes) // MIB)


def find_mounts() -> _Mounts | str:
    """Where groups can be made; a text that says why and what would help where they cannot."""
    own = _own_groups()
    unified = _mount_of("cgroup2", "")
    memory, pids = _mount_of("cgroup", "memory"), _mount_of("cgroup", "pids")
    if memory is not None and pids is not None:
        for parents in ((own.get("memory", "/"), own.get("pids", "/")), ("/", "/")):
            mounts = _Mounts(memory / parents[0][1:], pids / parents[1][1:], unified=False)
            if _works(mounts):
                return mounts
        return (
            "control groups (version 1) cannot be written: run as root, or let the administrator delegate one"
        )
    if unified is not None:
        for parent in (own.get("", "/"), "/"):
            folder = unified / parent[1:]
            if _has_controllers(folder):
                mounts = _Mounts(folder, folder, unified=True)
                if _works(mounts):
                    return mounts
        return (
            "no control group is delegated to this process: start it with "
            "`systemd-run --user --scope -p Delegate=yes`, or as root"
        )
    return "the kernel has no memory and pids control groups mounted: mount cgroup2 at /sys/fs/cgroup"


def empty(path: Path, timeout_s: float = 5.0) -> None:
    """Kill whoever is in a group, left by a host that was killed.

    Raises:
        SandboxUnavailable: somebody is still there after the time.
    """
    deadline = time.monotonic() + timeout_s
    while pids := (path / "cgroup.procs").read_text().split():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        if time.monotonic() > deadline:
            raise SandboxUnavailable(
                f"processes of an earlier run cannot be killed: {' '.join(pids)} in {path}"
            )
        time.sleep(0.01)


def _works(mounts: _Mounts) -> bool:
    """True if a group can be made there and takes limits."""
    probe = f"{_NAME}-probe-{os.getpid()}"
    made: list[Path] = []
    try:
        for folder in dict.fromkeys((mounts.memory, mounts.pids)):
            (folder / probe).mkdir()
            made.append(folder / probe)
        (mounts.pids / probe / "pids.max").write_text("10")
        limit = "memory.max" if mounts.unified else "memory.limit_in_bytes"
        (mounts.memory / probe / limit).write_text(str(64 * MIB))
    except OSError:
        return False
    finally:
        for path in made:
            path.rmdir()
    return True


def _has_controllers(folder: Path) -> bool:
    """True if children of a group of version 2 can have memory and pids limits; switched on if need be."""
    wanted = {"memory", "pids"}
    try:
        if not wanted <= set((folder / "cgroup.controllers").read_text().split()):
            return False
        if not wanted <= set((folder / "cgroup.subtree_control").read_text().split()):
            (folder / "cgroup.subtree_control").write_text("+memory +pids")
    except OSError:
        return False
    return True


def _own_groups() -> dict[str, str]:
    """Path of this process's group, by controller ("" for version 2)."""
    groups = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name in controllers.split(","):
            groups[name] = path
    return groups


def _mount_of(kind: str, controller: str) -> Path | None:
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, target, found, options, *_ = line.split()
        if found == kind and (not controller or controller in options.split(",")):
            return Path(target)
    return None


def _write_if_there(path: Path, text: str) -> None:
    if path.exists():
        with contextlib.suppress(
            OSError
        ):  # swap that cannot be switched off is bounded by the limit all the same
            path.write_text(text)
