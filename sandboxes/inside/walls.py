"""What stands between a program and everything else, as the supervisor that starts it sees it.

A wall knows three things: how a child gives up its privileges before it becomes the program, how everything that
a program started is ended, and what the kernel says about memory.
"""

from __future__ import annotations

import errno
import os
import resource
import time

from turngym.sandboxes.inside import kernel
from turngym.sandboxes.inside.trees import Child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turngym.sandboxes.inside.trees import Tree

_KILL, _STOP = 9, 19
_ONE_BY_ONE_S = 1.0


class Wall:
    """A wall of which kind `ends` says: "all" (first process of a pid namespace), "uid", or "children" (subreaper)."""

    def __init__(
        self,
        *,
        ends: str,
        home: str,
        uid: int,
        gid: int,
        filter: bytes = b"",
        soft_memory: bool = True,
        uid_is_own: bool = False,
        peak_fd: int = -1,
        oom_fd: int = -1,
        files_as_user: bool = False,
    ) -> None:
        self.ends = ends
        self.home = home
        self.uid = uid
        self.gid = gid
        self.filter = filter
        self.soft_memory = soft_memory
        """True if nothing but address-space limits bounds memory."""
        self.uid_is_own = uid_is_own
        """True if no other sandbox's processes count against the same per-user quotas."""
        self.peak_fd = peak_fd
        self.oom_fd = oom_fd
        self.files_as_user = files_as_user
        """True if the supervisor is root without capabilities over files: it takes the program's user for them."""
        self._has_common_limits = False

    def spawn(self, start: Any, request: dict[str, Any], fds: list[int]) -> Tree:
        """A child that becomes a program.

        Args:
            start: `start(request, wall, fds)` does that, in the child, and never returns.
            request: what the child needs to know.
            fds: descriptors of this process that the child gets.

        Raises:
            BecomeProgram: in the child, if it is to be a Python program.
        """
        pid = kernel.clone()
        if pid == 0:
            start(request, self, fds)
        return Child(pid, self)

    def as_user(self) -> _AsUser:
        """In a `with`: handle files, if need be, as the program's user."""
        return _AsUser(self.uid, self.gid, needed=self.files_as_user)

    def lock_in(self, limits: dict[str, Any]) -> None:
        """In the child: take the limits and give up every privilege, for ever."""
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # a supervisor hides its /proc files, a program has its own
        self.take_common_limits()
        memory = limits["memory_mib"] << 20
        seconds = max(1, -(-limits["cpu_ms"] // 1000))
        _limit(resource.RLIMIT_CPU, seconds, seconds + 1)
        _limit(resource.RLIMIT_FSIZE, limits["file_mib"] << 20)
        _limit(resource.RLIMIT_NOFILE, limits["open_files"])
        if self.soft_memory:
            _limit(
                resource.RLIMIT_AS, memory + (64 << 20)
            )  # libraries are mapped, and not all of it is memory
        if self.uid_is_own:
            _limit(resource.RLIMIT_NPROC, limits["processes"])
        _more_likely_killed()
        if self.ends == "children":
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            if self.filter:
                kernel.filter_syscalls(self.filter)
            return
        if os.getuid() != self.uid or os.getgid() != self.gid:
            os.setgroups([])
            os.setresgid(self.gid, self.gid, self.gid)
            os.setresuid(self.uid, self.uid, self.uid)
        kernel.keep_capabilities(0)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # a change of user has taken it away again
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        if self.filter:
            kernel.filter_syscalls(self.filter)

    def take_common_limits(self) -> None:
        """Take the limits that are the same for every program; whoever has taken them hands them on by fork."""
        if self._has_common_limits:
            return
        self._has_common_limits = True
        os.umask(0o022)
        _limit(resource.RLIMIT_CORE, 0)
        _limit(resource.RLIMIT_MEMLOCK, 1 << 16)
        _limit(resource.RLIMIT_MSGQUEUE, 1 << 18)

    def end_all(self, keep: int = 0, timeout_s: float = 5.0) -> bool:
        """Kill every process but this one, and reap. False if some outlived the time.

        The tree of `keep` is spared, unless the others fork faster than they are found: then it ends with them.
        """
        if keep and _end_all_but(keep):
            return True
        deadline = time.monotonic() + timeout_s
        while True:
            if self.ends == "all":
                killed = _signal(-1)
            elif self.ends == "uid":
                killed = _kill_as(self.uid, self.gid)
            else:
                killed = _signal_each(_descendants(os.getpid()))
            _, left = reap()
            if not killed and not left:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.0005)

    def oom_kills(self) -> int:
        """How many processes the kernel has killed for want of memory; 0 where it does not count them."""
        if self.oom_fd < 0:
            return 0
        for line in os.pread(self.oom_fd, 4096, 0).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
        return 0

    def peak_kib(self, largest_process_kib: int) -> int:
        """The most memory of the sandbox where the kernel counts it, else of its largest process."""
        if self.peak_fd < 0:
            return largest_process_kib
        return int(os.pread(self.peak_fd, 64, 0)) >> 10


class _AsUser:
    """Takes another user's effective id for a while. The real id stays root's: it cannot be signalled."""

    def __init__(self, uid: int, gid: int, *, needed: bool) -> None:
        self.uid, self.gid, self.needed = uid, gid, needed

    def __enter__(self) -> None:
        if self.needed:
            os.setegid(self.gid)
            os.seteuid(self.uid)

    def __exit__(self, *_: object) -> None:
        if self.needed:
            os.seteuid(0)
            os.setegid(0)


def reap() -> tuple[bool, bool]:
    """Collect dead children; whether there were some, and whether live ones are left."""
    some = False
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return some, False
        if pid == 0:
            return some, True
        some = True


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    hard = soft if hard is None else hard
    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        hard = min(hard, most)
    resource.setrlimit(kind, (min(soft, hard), hard))


def _more_likely_killed() -> None:
    """Where memory runs out, the kernel picks the program before the supervisor."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EACCES, errno.EROFS):
            raise
        return
    try:
        os.write(fd, b"1000")
    finally:
        os.close(fd)


def _signal(pid: int, number: int = _KILL) -> bool:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def _signal_each(pids: list[int], number: int = _KILL) -> bool:
    signalled = [_signal(pid, number) for pid in pids]  # each, not only up to the first
    return any(signalled)


def _end_all_but(keep: int) -> bool:
    """Kill every process below this one but those of one tree; False if they do not become fewer.

    They are stopped first: what is stopped forks no more, and takes the room that others would fork into.
    """
    deadline = time.monotonic() + _ONE_BY_ONE_S
    stopped: set[int] = set()
    while time.monotonic() < deadline:
        others = _others(keep)
        new = [pid for pid in others if pid not in stopped]
        if new:
            _signal_each(new, _STOP)
            stopped.update(new)
        else:
            _signal_each(others)
        some, _ = reap()  # who was found by nobody, because it ended after a fork, is found here
        if not others and not some:
            return True
    return False


def _kill_as(uid: int, gid: int) -> bool:
    """Kill everything of a user from a child that has become it: no process can slip between a list and a kill.

    True if some of it is there yet. The kernel's own answer says only that there were processes, whoever's.
    """
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            _signal(-1)
            os._exit(0)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 2:
        raise OSError(errno.EPERM, "cannot become the program's user to end its processes")
    return _lives(uid)


def _lives(uid: int) -> bool:
    """True if a process of a user is alive. The owner of a folder of /proc says too little: processes can hide it."""
    wanted = b"%d" % uid
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/status", "rb") as file:
                    fields = dict(line.split(b":", 1) for line in file if b":" in line)
            except OSError:  # gone meanwhile
                continue
            if wanted in fields[b"Uid"].split() and fields[b"State"].split()[0] not in (b"Z", b"X"):
                return True
    return False


def _parents() -> dict[int, int]:
    """Parent of every process that /proc shows, zombies left out."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:  # gone meanwhile
                continue
            if fields[0] not in (b"Z", b"X"):
                parents[int(name)] = int(fields[1])
    return parents


def _descendants(top: int) -> list[int]:
    parents = _parents()
    found = {top}
    grew = True
    while grew:
        grew = False
        for pid, parent in parents.items():
            if parent in found and pid not in found:
                found.add(pid)
                grew = True
    return sorted(found - {top})


def _others(keep: int) -> list[int]:
    """Every process below this one but those of one tree."""
    kept = {keep, *_descendants(keep)}
    return [pid for pid in _descendants(os.getpid()) if pid not in kept]
