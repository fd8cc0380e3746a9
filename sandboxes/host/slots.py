"""Numbered places for concurrent sandboxes: user ids and control groups that no two of this machine share.

A number is held by a file lock, which the kernel lets go when its holder dies, however it dies. Whoever takes the
number next finds its groups, and empties them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from pathlib import Path
from typing import Final

from turngym.sandboxes.capabilities import Capability
from turngym.sandboxes.errors import SandboxBusy, SandboxUnavailable
from turngym.sandboxes.host.cgroups import SlotGroup, find_mounts

IDS_PER_SLOT: Final = 2
"""User ids of a slot: of its supervisor, and of its programs."""


class Slot:
    """One number, its user ids and its control group."""

    def __init__(self, number: int, lock_fd: int, uid_base: int, group: SlotGroup | None) -> None:
        self.number = number
        self._lock_fd = lock_fd
        first = uid_base + IDS_PER_SLOT * number
        self.ids = (first, first + 1)
        """Of the supervisor and of its programs."""
        self.group = group
        """None where control groups cannot be had."""

    def free(self) -> None:
        """Give the number back. Nothing may run in it any more."""
        if self.group is not None:
            self.group.close()
        os.close(self._lock_fd)


class Slots:
    """The numbers of this machine, for one user.

    Args:
        count: the most sandboxes at once, over all processes that use the same range.
        uid_base: first user id of the range; used where this process may choose ids.
        groups: whether to use control groups where they can be had.
    """

    def __init__(self, count: int, uid_base: int, *, groups: bool = True) -> None:
        self._count = count
        self._uid_base = uid_base
        self._folder = _private_folder()
        self._next = 0
        found = find_mounts() if groups else "control groups are switched off in the configuration"
        self._mounts = None if isinstance(found, str) else found
        self.why_no_groups = found if isinstance(found, str) else ""
        """Why sandboxes get no control group, and what would help; empty if they do."""

    def take(self) -> Slot:
        """A free number.

        Raises:
            SandboxBusy: none is free.
            SandboxUnavailable: an earlier run's processes sit in it and cannot be killed.
        """
        for offset in range(self._count):
            number = (self._next + offset) % self._count
            fd = os.open(
                self._folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
            )
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                continue
            except BaseException:
                os.close(fd)
                raise
            try:
                group = None if self._mounts is None else SlotGroup(self._mounts, number)
            except BlockingIOError:  # a process whose temporary files, and locks, are elsewhere
                os.close(fd)
                continue
            except BaseException:
                os.close(fd)
                raise
            self._next = number + 1
            return Slot(number, fd, self._uid_base, group)
        raise SandboxBusy(
            f"all {self._count} places for sandboxes are taken on this machine: raise `max_sandboxes`"
        )


def why_missing(slots: Slots | None, *, may_choose_ids: bool) -> dict[Capability, str]:
    """What slots on this machine cannot give, and what would help."""
    found: dict[Capability, str] = {
        "kernel": "namespaces share the host's kernel: use docker with runtime=runsc, or a virtual machine"
    }
    if slots is not None and slots.why_no_groups:
        found["hard_memory"] = found["hard_processes"] = slots.why_no_groups
    if not may_choose_ids:
        found["own_uid"] = "started by a user without privileges, programs have that user's id: run as root"
    return found


def _private_folder() -> Path:
    """A folder of locks that only this user can write."""
    path = Path(tempfile.gettempdir()) / f"turngym-slots-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o022:
        raise SandboxUnavailable(f"{path} belongs to somebody else or others can write it: remove it")
    return path
