"""Runs one program to its end: feeds and drains its pipes, holds its limits, and says how it ended.

The poll loop never waits for one pipe alone, so no amount of output or of unread input can block it; the end of
the program is the kernel's word (a pidfd), and everything that it started ends with it.
"""

from __future__ import annotations

import _signal
import errno
import marshal
import os
import select
import time

from turngym.sandboxes.inside import python
from turngym.sandboxes.inside.walls import Wall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turngym.sandboxes.inside.trees import Tree

_DRAIN_S = 0.25
_CHUNK = 1 << 16
_SIGXCPU = 24
_SIGKILL = 9
REPLY_FD = 3


class HostGone(Exception):
    """The other end of the channel was closed: nobody waits for an answer."""


class BecomeProgram(BaseException):
    """Raised in a child that shall run Python code itself, once the supervisor's frames are unwound."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__()
        self.arguments = arguments


class Stream:
    """What a program writes to one descriptor, up to a limit."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.fd, self.inner_fd = os.pipe()
        os.set_blocking(self.fd, False)
        self.size = 0
        self.parts: list[bytes] = []
        self.truncated = False

    def read(self) -> bool:
        """Take what is there; False at the end of file."""
        try:
            data = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return True
        if not data:
            return False
        room = self.limit - self.size
        if len(data) > room:
            self.truncated = True
            data = data[:room]
        if data:
            self.parts.append(data)
            self.size += len(data)
        return True

    def take(self) -> bytes:
        """What was written so far, forgotten here."""
        data = b"".join(self.parts)
        self.parts, self.size = [], 0
        return data


def run_command(
    request: dict[str, Any], wall: Wall, host_fd: int, *, warm: bool, keep: int = 0
) -> dict[str, Any]:
    """Run a program and describe its end.

    Args:
        request: program (argv, cwd, env and limits, see `become_command`), stdin, limits and, if an answer is
            wanted, reply_bytes.
        wall: what surrounds it.
        host_fd: a descriptor that hangs up when the host is gone.
        warm: run a Python program, where that can be, in a fork of this interpreter instead of a new one.
        keep: a process whose tree is no part of this program (a session); 0 for none.

    Raises:
        HostGone: the host hung up; the program has been ended.
        BecomeProgram: in the child, if it is to run as a fork.
    """
    limits = request["limits"]
    streams = [Stream(limits["stdout_bytes"]), Stream(limits["stderr_bytes"])]
    if "reply_bytes" in request:
        streams.append(Stream(request["reply_bytes"]))
    in_read, in_write = os.pipe()
    os.set_blocking(in_write, False)
    kills_before = wall.oom_kills()
    began = time.monotonic()
    fds = [in_read, *(stream.inner_fd for stream in streams)]
    try:
        tree = wall.spawn(become_command, {"program": request["program"], "warm": warm}, fds)
    except OSError:
        for fd in (in_write, *fds, *(stream.fd for stream in streams)):
            os.close(fd)
        raise
    for fd in fds:  # not in a `finally`: a child that becomes a program comes this way, and has closed them
        os.close(fd)
    end = _Watch(
        tree, streams, in_write, request.get("stdin", b""), host_fd, began + limits["wall_ms"] / 1000
    )
    try:
        end.watch()
    finally:
        end.cleaned = tree.end(keep)
        end.drain()
        end.close()
    wall_s = time.monotonic() - began
    if not end.cleaned:
        raise OSError(errno.EBUSY, "some processes of the program could not be ended")
    return _describe(end, wall, limits, wall_s, kills_before)


class _Watch:
    """The poll loop of one program."""

    def __init__(
        self, tree: Tree, streams: list[Stream], in_fd: int, stdin: bytes, host_fd: int, deadline: float
    ) -> None:
        self.tree = tree
        self.streams = streams
        self.in_fd = in_fd
        self.stdin = memoryview(stdin)
        self.host_fd = host_fd
        self.deadline = deadline
        self.stopped_for = ""
        self.cleaned = False
        self.open = {stream.fd: stream for stream in streams}

    def watch(self) -> None:
        """Until the program ends, or a limit ends it."""
        poll = select.poll()
        for fd in self.open:
            poll.register(fd, select.POLLIN)
        poll.register(self.tree.fd, select.POLLIN)
        poll.register(self.host_fd, select.POLLRDHUP)
        if self.stdin:
            poll.register(self.in_fd, select.POLLOUT)
        else:
            self._end_stdin()
        while True:
            left_s = self.deadline - time.monotonic()
            if left_s <= 0:
                self.stopped_for = "timeout"
            if self.stopped_for:
                self._stop()
                return
            for fd, events in poll.poll(min(left_s, 0.5) * 1000 + 1):
                if fd == self.tree.fd:
                    self.tree.wait()
                    return
                if fd == self.host_fd:
                    if events & (select.POLLHUP | select.POLLRDHUP | select.POLLERR):
                        self._stop()
                        raise HostGone
                elif fd == self.in_fd:
                    if not self._feed():
                        poll.unregister(fd)
                        self._end_stdin()
                elif not self.open[fd].read():
                    poll.unregister(fd)
                    del self.open[fd]
            if any(stream.truncated for stream in self.streams):
                self.stopped_for = "output_limit"
            self.tree.reap_orphans()

    def drain(self) -> None:
        """What is still in the pipes, once nobody writes any more."""
        deadline = time.monotonic() + _DRAIN_S
        poll = select.poll()
        for fd in self.open:
            poll.register(fd, select.POLLIN)
        while self.open and time.monotonic() < deadline:
            for fd, _ in poll.poll(10):
                if not self.open[fd].read():
                    poll.unregister(fd)
                    del self.open[fd]

    def close(self) -> None:
        """Close every descriptor of the program."""
        self._end_stdin()
        self.tree.close()
        for stream in self.streams:
            os.close(stream.fd)

    def _feed(self) -> bool:
        try:
            self.stdin = self.stdin[os.write(self.in_fd, self.stdin[:_CHUNK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return len(self.stdin) > 0

    def _end_stdin(self) -> None:
        if self.in_fd >= 0:
            os.close(self.in_fd)
            self.in_fd = -1

    def _stop(self) -> None:
        self.tree.signal(_SIGKILL)
        self.tree.wait()


def _describe(
    end: _Watch, wall: Wall, limits: dict[str, Any], wall_s: float, kills_before: int
) -> dict[str, Any]:
    ended = end.tree.wait()
    signal = os.WTERMSIG(ended.status) if os.WIFSIGNALED(ended.status) else 0
    cpu_s = ended.cpu_s
    if end.stopped_for:
        status = end.stopped_for
    elif signal == _SIGKILL and wall.oom_kills() > kills_before:
        status = "oom"
    elif signal == _SIGXCPU or (signal == _SIGKILL and cpu_s * 1000 >= limits["cpu_ms"]):
        status = "timeout"
    elif any(stream.truncated for stream in end.streams):
        status = "output_limit"
    else:
        status = "signalled" if signal else "exited"
    found = {
        "status": status,
        "stdout": b"".join(end.streams[0].parts),
        "stderr": b"".join(end.streams[1].parts),
        "stdout_truncated": end.streams[0].truncated,
        "stderr_truncated": end.streams[1].truncated,
        "wall_us": int(wall_s * 1e6),
        "cpu_us": int(cpu_s * 1e6),
        "peak_kib": wall.peak_kib(ended.peak_kib),
    }
    if status == "exited":
        found["exit_code"] = os.WEXITSTATUS(ended.status)
    elif status == "signalled":
        found["signal"] = signal
    if len(end.streams) > 2 and not end.streams[2].truncated:
        found["reply"] = b"".join(end.streams[2].parts)
    return found


def become_command(request: dict[str, Any], wall: Wall, fds: list[int]) -> None:
    """In the child: take the pipes, lock the door, and become the program. Never returns."""
    program = marshal.loads(request["program"])
    argv = program["argv"]
    try:
        os.setsid()
        # First out of the way of 0..3, then to their places.
        for place, fd in enumerate([os.dup(fd) if fd < 4 else fd for fd in fds]):
            os.dup2(fd, place)
        os.closerange(len(fds), 1 << 20)
        wall.lock_in(program["limits"])
        os.chdir(os.path.join(wall.home, program["cwd"]))  # with the program's own rights
        if request["warm"] and python.can_run(argv):
            set_environment(program["env"])
            raise BecomeProgram(argv)
        _default_signals()
        os.execvpe(argv[0], argv, program["env"])
    except OSError as error:
        reason = (error.strerror or "?").encode()
        os.write(2, b"turngym: cannot run %s: %s\n" % (os.fsencode(argv[0]), reason))
        os._exit(126 if error.errno in (errno.EACCES, errno.ENOEXEC, errno.EPERM) else 127)
    except Exception as error:  # noqa: BLE001 (a fork must never return into the supervisor)
        os.write(2, (f"turngym: cannot run: {error!r}\n").encode("utf-8", "replace"))
        os._exit(127)


def set_environment(env: dict[str, str]) -> None:
    """Give this interpreter other variables, and touch little: in a fork every page counts."""
    for key in list(os.environ):
        if key not in env:
            del os.environ[key]
    for key, value in env.items():
        if os.environ.get(key) != value:
            os.environ[key] = value


def _default_signals() -> None:
    """Python ignores two signals that other programs expect, and the supervisor one more."""
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ, _signal.SIGINT):
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
