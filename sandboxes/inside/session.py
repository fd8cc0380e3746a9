"""A stateful interpreter: a child that runs one piece of code after the other in the same variables.

The child is model code and believed nothing: its word that a piece is done only ends the wait. What it wrote is
read from its pipes, its time is the supervisor's, and its death is the kernel's word.
"""

from __future__ import annotations

import os
import select
import sys
import time

from turngym.sandboxes.inside.command import BecomeProgram, HostGone, Stream, set_environment
from turngym.sandboxes.inside.python import start_afresh
from turngym.sandboxes.inside.walls import Wall
from turngym.sandboxes.inside.wire import Channel, WireError, decode, pack_frame

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from turngym.sandboxes.inside.trees import Tree

_GRACE_S = 1.0
_SIGINT, _SIGKILL = 2, 9
_TASK_FD, _DONE_FD = 3, 4
_MAX_VALUE = 1 << 16
_MAX_ANSWER = 4 * _MAX_VALUE + 100  # its characters as UTF-8
_MAX_READS = 32


class Session:
    """The supervisor's side of one interpreter."""

    def __init__(self, request: dict[str, Any], wall: Wall, host_fd: int) -> None:
        limits = request["limits"]
        self.host_fd = host_fd
        self.out = Stream(limits["stdout_bytes"])
        self.err = Stream(limits["stderr_bytes"])
        task_read, self.task_fd = os.pipe()
        self.done_fd, done_write = os.pipe()
        null = os.open("/dev/null", os.O_RDONLY)
        fds = [null, self.out.inner_fd, self.err.inner_fd, task_read, done_write]
        try:
            program = {"env": request["env"], "limits": limits}
            self.tree: Tree = wall.spawn(become_session, program, fds)
        except OSError:
            for fd in (self.task_fd, self.done_fd, self.out.fd, self.err.fd, *fds):
                os.close(fd)
            raise
        for fd in fds:  # not in a `finally`: a child that becomes an interpreter comes this way
            os.close(fd)
        self.closed = False
        # Neither a code that nobody reads nor half an answer can stop the supervisor.
        os.set_blocking(self.task_fd, False)
        os.set_blocking(self.done_fd, False)

    @property
    def alive(self) -> bool:
        """Whether its process runs; once it has ended, its number may be another's."""
        return not self.closed and self.tree.alive

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one piece of code; the answer's status is ok, error, interrupted or lost.

        Raises:
            HostGone: the host hung up.
        """
        limits = request["limits"]
        self.out.limit, self.err.limit = limits["stdout_bytes"], limits["stderr_bytes"]
        self.out.truncated = self.err.truncated = False
        began = time.monotonic()
        answer = None
        unasked, _, _ = select.select([self.done_fd], [], [], 0)
        if not unasked:  # else it has ended, or answers without being asked
            task = pack_frame({"code": request["code"]})
            try:
                answer = self._wait(task, began + limits["wall_ms"] / 1000)
            except (BrokenPipeError, WireError):  # it has closed a pipe, or says what is no answer
                answer = None
        if answer is None:
            self._end()
        self._drain()
        found = {
            "status": b"lost",
            "stdout": self.out.take(),
            "stderr": self.err.take(),
            "stdout_truncated": self.out.truncated,
            "stderr_truncated": self.err.truncated,
            "wall_us": int((time.monotonic() - began) * 1e6),
        }
        if answer is None:
            self.close()
        else:
            found["status"] = answer["status"]
            if "value" in answer:
                found["value"] = answer["value"][:_MAX_VALUE]
        return found

    def close(self) -> None:
        """End the interpreter and everything that it started. Safe to call twice."""
        if not self.closed:
            self._end()
            self.closed = True
            self.tree.close()
            for fd in (self.task_fd, self.done_fd, self.out.fd, self.err.fd):
                os.close(fd)

    def _end(self) -> None:
        self.tree.signal(_SIGKILL)
        self.tree.wait()
        self.tree.end()

    def _wait(self, task: bytes, deadline: float) -> dict[str, Any] | None:
        """Send the code and wait; the interpreter's answer, or None if it died or had to be given up."""
        poll = select.poll()
        streams = {self.out.fd: self.out, self.err.fd: self.err}
        for fd in (self.done_fd, self.tree.fd, *streams):
            poll.register(fd, select.POLLIN)
        poll.register(self.task_fd, select.POLLOUT)
        poll.register(self.host_fd, select.POLLRDHUP)
        left = memoryview(task)
        came = bytearray()
        interrupted = False
        while True:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                if interrupted:
                    return None
                interrupted = True
                deadline += _GRACE_S
                self.tree.signal(_SIGINT)
                continue
            for fd, events in poll.poll(left_s * 1000 + 1):
                if fd == self.done_fd:
                    answer = self._receive(came)
                    if answer is not None:
                        return None if left else _checked(answer, interrupted)
                elif fd == self.tree.fd:
                    return None
                elif fd == self.host_fd:
                    if events & (select.POLLHUP | select.POLLRDHUP | select.POLLERR):
                        self.close()
                        raise HostGone
                elif fd == self.task_fd:
                    left = self._send(left)
                    if not left:
                        poll.unregister(fd)
                elif not streams[fd].read():
                    poll.unregister(fd)

    def _send(self, left: memoryview) -> memoryview:
        try:
            return left[os.write(self.task_fd, left[: 1 << 16]) :]
        except BlockingIOError:
            return left

    def _receive(self, came: bytearray) -> Any:
        """One answer, and nothing behind it; None while it is not whole.

        Raises:
            WireError: it is damaged, too long, or the interpreter has closed the pipe.
        """
        try:
            data = os.read(self.done_fd, 1 << 16)
        except BlockingIOError:
            return None
        came += data
        length = int.from_bytes(came[:4], "big")
        if not data or (len(came) >= 4 and length > _MAX_ANSWER) or len(came) > 4 + length:
            raise WireError("no answer")
        if len(came) < 4 or len(came) < 4 + length:
            return None
        return decode(bytes(came[4:]))

    def _drain(self) -> None:
        """What was written before the answer is in the pipes already."""
        for stream in (self.out, self.err):
            for _ in range(_MAX_READS):  # somebody may go on writing
                if not select.select([stream.fd], [], [], 0)[0] or not stream.read():
                    break


def _checked(answer: Any, interrupted: bool) -> dict[str, Any] | None:
    """An interpreter's answer, if it is one."""
    if not isinstance(answer, dict) or answer.get("status") not in (b"ok", b"error"):
        return None
    value = answer.get("value")
    found = {"status": b"interrupted" if interrupted else answer["status"]}
    if isinstance(value, bytes) and not interrupted:
        found["value"] = value
    return found


def become_session(request: dict[str, Any], wall: Wall, fds: list[int]) -> None:
    """In the child: take the pipes, lock the door, and become the interpreter."""
    try:
        os.setsid()
        fds = [os.dup(fd) if fd < 5 else fd for fd in fds]
        for place, fd in enumerate(fds):
            os.dup2(fd, place, inheritable=place < 3)
        os.closerange(len(fds), 1 << 20)
        os.chdir(wall.home)
        wall.lock_in(request["limits"])
        set_environment({os.fsdecode(k): os.fsdecode(v) for k, v in request["env"].items()})
    except Exception as error:  # noqa: BLE001 (a fork must never return into the supervisor)
        os.write(2, (f"turngym: cannot start an interpreter: {error!r}\n").encode("utf-8", "replace"))
        os._exit(127)
    raise BecomeProgram([])


def interpret() -> None:
    """In the child: run pieces of code until the supervisor closes the pipe."""
    start_afresh()
    sys.path[:0] = ["", *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path)]
    sys.argv = [""]
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    main.__dict__["__builtins__"] = sys.modules["builtins"]
    channel = Channel(_TASK_FD, _DONE_FD)
    number = 0
    answer: dict[str, Any]
    while True:
        try:
            task = channel.receive()
        except KeyboardInterrupt:  # it came a moment after the code was done
            continue
        if task is None:
            return
        number += 1
        try:
            answer = _run_piece(task["code"].decode("utf-8", "surrogateescape"), main.__dict__, number)
        except KeyboardInterrupt:  # it came as the code ended
            answer = {"status": "error"}
        channel.send(answer)


def _run_piece(code: str, space: dict[str, Any], number: int) -> dict[str, Any]:
    import ast
    import linecache
    import traceback

    name = f"<call {number}>"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    answer: dict[str, Any] = {"status": "ok"}
    try:
        tree = ast.parse(code, name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), space)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), space)
            if value is not None:
                answer["value"] = repr(value)[:_MAX_VALUE].encode("utf-8", "backslashreplace")
    except SystemExit as leaving:
        answer["status"] = "error"
        print(f"SystemExit: {leaving}", file=sys.stderr)
    except BaseException as error:  # noqa: BLE001 (whatever the code raises is its result)
        answer["status"] = "error"
        error.__traceback__ = error.__traceback__ and error.__traceback__.tb_next
        traceback.print_exception(type(error), error, error.__traceback__)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the code may have closed or replaced it
            continue
    return answer
