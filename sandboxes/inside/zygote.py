"""Forks the programs of a slot from a Python that is ready, and ends whatever comes of them.

A zygote is the first process of a pid namespace in which, but for it, only programs ever are: they are its children,
their orphans become its children, so that once it has no child left, nothing is left. It never sees a request: it
is told that one is there, and hands the descriptor on. So whatever it forks holds nothing of any other sandbox.

Source: the manual pages pid_namespaces(7), setns(2), kill(2).
"""

from __future__ import annotations

import _signal
import errno
import marshal
import os
import select
import socket

from turngym.sandboxes.inside import command, kernel, passing, root, session
from turngym.sandboxes.inside.trees import KILL, Child, End
from turngym.sandboxes.inside.walls import Wall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SPACES = ("mnt", "ipc", "net")  # namespaces that the programs of a sandbox share
_STARTS = {start.__name__.encode(): start for start in (command.become_command, session.become_session)}
_FIRST_FD = 5  # below are the places of programs
_MAX_REPORT = 256
_LOOK_MS = 500  # between looks for orphans that have ended


class ZygoteWall(Wall):
    """The wall of a slot whose programs are forked by zygotes: one for commands, one for a session beside them."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(ends="all", **fields)
        self._zygotes = {start: Zygote(self) for start in _STARTS}
        self._spaces: list[int] = []

    def open(self) -> None:
        """Begin a sandbox: programs join the namespaces in which the caller is now."""
        self._spaces = [open_space(name) for name in _SPACES]

    def close(self) -> None:
        """End the sandbox, whose programs have ended."""
        for zygote in self._zygotes.values():
            zygote.leave()
        for fd in self._spaces:
            os.close(fd)
        self._spaces = []

    def spawn(self, start: Any, request: dict[str, Any], fds: list[int]) -> Fork:
        """A program in the pid namespace of a zygote (see `Wall.spawn`)."""
        name = start.__name__.encode()
        zygote = self._zygotes[name]
        zygote.enter(self._spaces)
        request_fd = os.memfd_create("request")
        try:
            os.write(request_fd, marshal.dumps(request))
            zygote.tell(name, [request_fd, *fds])
        finally:
            os.close(request_fd)
        return Fork(zygote)


class Zygote:
    """The supervisor's side of one zygote."""

    def __init__(self, wall: Wall) -> None:
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.fd = self._link.fileno()
        """Readable once it has something to say."""
        self._inside = False
        if kernel.clone(kernel.CLONE_NEWPID) == 0:
            _serve(theirs, wall)
        theirs.close()

    def enter(self, spaces: list[int]) -> None:
        """Join a sandbox's namespaces, unless it is there. If that fails, the next program says so."""
        if not self._inside:
            self.tell(b"enter", spaces)
            self._inside = True

    def leave(self) -> None:
        """Go back to where it was begun, so that nothing holds on to the sandbox."""
        if self._inside:
            self.tell(b"leave", [])
            self._inside = False

    def tell(self, word: bytes, fds: list[int]) -> None:
        """Send a word and copies of descriptors.

        Raises:
            RuntimeError: it has ended.
        """
        try:
            passing.send(self._link, word, fds)
        except OSError as error:
            raise RuntimeError(f"the zygote has ended: {error}") from None

    def hear(self) -> Any:
        """Wait for what it has to say.

        Raises:
            RuntimeError: it has ended.
        """
        try:
            return marshal.loads(self._link.recv(_MAX_REPORT))
        except (OSError, EOFError) as error:
            raise RuntimeError(f"the zygote has ended: {error}") from None


class Fork:
    """A program of a zygote, and everything that it starts."""

    def __init__(self, zygote: Zygote) -> None:
        self.pid = 0
        """Its number is another one here, and nobody needs it."""
        self.fd = zygote.fd
        """Readable once all has ended."""
        self._zygote = zygote
        self._end: End | None = None

    @property
    def alive(self) -> bool:
        """Whether the program runs."""
        return self._end is None and not select.select([self.fd], [], [], 0)[0]

    def signal(self, number: int) -> None:
        """Interrupt the program (SIGINT), or end everything (SIGKILL)."""
        if self._end is None:
            self._zygote.tell(b"%d" % number, [])

    def wait(self) -> End:
        """Wait for the end of everything.

        Raises:
            OSError: the program could not be started.
        """
        if self._end is None:
            failed, *found = self._zygote.hear()
            self._end = End(*found)
            if failed:
                raise OSError(failed, os.strerror(failed))
        return self._end

    def reap_orphans(self) -> None:
        """Nothing: the zygote does that."""

    def end(self, keep: int = 0) -> bool:
        """End everything; the programs of other zygotes are none of its business."""
        del keep
        if self._end is None:
            self.signal(KILL)
            self.wait()
        return True

    def close(self) -> None:
        """Nothing: the zygote lives on."""


def open_space(name: str) -> int:
    """A namespace of this process, as a descriptor."""
    return os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)


def _serve(link: socket.socket, wall: Wall) -> None:
    """Do what each message says until the supervisor is gone.

    Raises:
        BecomeProgram: in a child that is to be a Python program.
    """
    own = [open_space(name) for name in _SPACES]
    kept = [link.fileno(), *own]
    for fd in range(_FIRST_FD, max(kept)):
        if fd not in kept:
            os.closerange(fd, fd + 1)
    os.closerange(max(kept) + 1, 1 << 20)
    wall.take_common_limits()
    # Programs start with it held back, until they can take it.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, [_signal.SIGINT])
    refused = 0  # the error with which the sandbox could not be joined
    while True:
        word, fds = passing.receive(link)
        if not word:
            os._exit(0)
        if word in _STARTS:
            link.send(marshal.dumps(_run(_STARTS[word], fds, link, wall, refused)))
        elif word == b"enter":
            refused = _join(fds)
        elif word == b"leave":
            for fd in own:
                kernel.setns(fd)
        # Any other was for a program that had ended by then.


def _join(spaces: list[int]) -> int:
    """Join namespaces, and show the processes of this one; 0, or the number of an error."""
    try:
        for fd in spaces:
            kernel.setns(fd)
        kernel.unshare(kernel.CLONE_NEWNS)
        root.show_processes()
    except OSError as error:
        return error.errno or errno.EPERM
    finally:
        for fd in spaces:
            os.close(fd)
    _count_from_one()
    return 0


def _count_from_one() -> None:
    """Let the numbers of processes say nothing about earlier sandboxes. A kernel may have been built without that."""
    try:
        fd = os.open("/proc/sys/kernel/ns_last_pid", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return
    os.write(fd, b"1")
    os.close(fd)


def _run(
    start: Any, fds: list[int], link: socket.socket, wall: Wall, refused: int
) -> tuple[int, int, float, int]:
    """Fork a program, and end all that comes of it: the number of an error or 0, and the fields of an `End`."""
    request_fd, *rest = fds
    try:
        pid = -refused if refused else kernel.clone()
    except OSError as error:
        pid = -(error.errno or errno.EAGAIN)
    if pid == 0:
        link.detach()  # its number may be another's by the time that the object goes
        request = marshal.loads(os.pread(request_fd, os.lseek(request_fd, 0, os.SEEK_END), 0))
        start(request, wall, rest)
    for fd in fds:
        os.close(fd)  # whoever reads from the program learns that it has closed them
    if pid < 0:
        return -pid, 0, 0.0, 0
    child = Child(pid, wall)
    _watch(child, link)
    end = child.wait()
    child.close()
    if not child.end():
        os._exit(1)  # the kernel ends them with this namespace, and the slot is lost
    return 0, end.status, end.cpu_s, end.peak_kib


def _watch(child: Child, link: socket.socket) -> None:
    """Until the program ends; meanwhile, hand on the signals that the supervisor asks for."""
    poll = select.poll()
    poll.register(child.fd, select.POLLIN)
    poll.register(link, select.POLLIN)
    while True:
        for fd, _ in poll.poll(_LOOK_MS):
            if fd == child.fd:
                return
            word, _ = passing.receive(link)
            if not word:
                os._exit(0)
            if int(word) == KILL:
                os.kill(-1, KILL)
            else:
                child.signal(int(word))
        child.reap_orphans()
