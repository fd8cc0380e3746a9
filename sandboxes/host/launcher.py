"""The host's side of the launcher process: starts it, and asks it for keepers and programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from typing import Any, Final

from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.host.bundle import BOOT_COMPILED, compiled
from turngym.sandboxes.host.channel import HostChannel
from turngym.sandboxes.inside.wire import decode, encode

_ANSWER_S: Final = 60.0
_END_S: Final = 10.0


class Started:
    """A process that the launcher has started, and the channel to the supervisor in it."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.channel = HostChannel(link)
        self._pid_fd = os.pidfd_open(pid)

    async def ended(self, timeout_s: float) -> bool:
        """Wait for its end; False if it goes on."""
        return await _readable(self._pid_fd, timeout_s)

    async def kill(self) -> None:
        """End it, and with it every process in its namespace; returns when it is dead."""
        self.channel.close()
        if self._pid_fd < 0:
            return
        fd, self._pid_fd = self._pid_fd, -1
        try:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            await _readable(fd, _END_S)
        finally:
            os.close(fd)


class Helper:
    """A process that starts others for us, and the control socket to it."""

    def __init__(self, control: socket.socket) -> None:
        control.setblocking(False)
        self._control = control
        self._turn = asyncio.Lock()
        self._asked = 0
        self._asking = False
        self._closed = False

    async def start(self, request: dict[str, Any], fds: list[int], place: int = 0) -> Started:
        """Ask for a process. The descriptors are passed on and stay open here.

        Args:
            request: what to start; see `inside/launcher.py`.
            fds: descriptors that it gets.
            place: where among them its end of the channel goes.

        Raises:
            SandboxUnavailable: it cannot be started; the message says why.
        """
        ours, theirs = socket.socketpair()
        try:
            pid = await self.ask(request, [*fds[:place], theirs.fileno(), *fds[place:]])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Started(pid, ours)

    async def ask(self, request: dict[str, Any], fds: list[int]) -> int:
        """Ask for a process; its number.

        Raises:
            SandboxUnavailable: it cannot be started; the message says why.
        """
        async with self._turn:
            self._asked += 1
            asking = asyncio.ensure_future(self._exchange(request, fds, self._asked))
            try:
                answer = await asyncio.shield(asking)
            except asyncio.CancelledError:
                # A question that has been sent is answered: what it started is known by then.
                while not asking.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait({asking})
                asking.exception()
                raise
        if "pid" not in answer:
            raise SandboxUnavailable(
                f"a sandbox cannot be started: {answer['message'].decode('utf-8', 'replace')}"
            )
        pid: int = answer["pid"]
        return pid

    def close(self) -> None:
        """Hang up: the process ends, and what it started with it. Safe to call twice."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # whoever waits for an answer learns that there is none
        self._let_go()

    def _let_go(self) -> None:
        """Close the descriptor, unless an event loop watches it: it would never report one that was closed."""
        if self._closed and not self._asking:
            self._control.close()

    async def _exchange(self, request: dict[str, Any], fds: list[int], serial: int) -> Any:
        if self._closed:
            raise SandboxUnavailable("the sandboxes' helper has ended")
        self._asking = True
        try:
            async with asyncio.timeout(_ANSWER_S):
                # One question at a time is less than what the socket takes at once.
                socket.send_fds(self._control, [encode({**request, "serial": serial})], fds)
                while True:
                    answer = decode(await self._message())
                    if answer.get("serial") == serial:
                        return answer  # a late one to an earlier question, which was given up, is passed over
        except TimeoutError:
            raise SandboxUnavailable(f"the sandboxes' helper has not answered for {_ANSWER_S:g} s") from None
        except OSError as error:
            raise SandboxUnavailable(f"the sandboxes' helper has ended: {error}") from error
        finally:
            self._asking = False
            self._let_go()

    async def _message(self) -> bytes:
        data = await asyncio.get_running_loop().sock_recv(self._control, 1 << 16)
        if not data:
            raise SandboxUnavailable("the sandboxes' helper has ended")
        return data


class Branch:
    """A helper of one slot, in its control groups and under its user."""

    def __init__(self, helper: Helper, pid: int) -> None:
        self.helper = helper
        self._pid_fd = os.pidfd_open(pid)

    async def end(self) -> None:
        """End it; returns when it is dead."""
        self.helper.close()
        fd, self._pid_fd = self._pid_fd, -1
        try:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(fd, signal.SIGKILL)
            await _readable(fd, _END_S)
        finally:
            os.close(fd)


class Launcher:
    """The helper of one backend, begun when it is first needed.

    Args:
        python: the interpreter that sandboxes run.
        preload: further modules that are ready before a program starts.
        paths: folders that these come from.
    """

    def __init__(self, python: str, preload: tuple[str, ...] = (), paths: tuple[str, ...] = ()) -> None:
        self._python = python
        self._preload = preload
        self._paths = paths
        self._process: subprocess.Popen[bytes] | None = None
        self._helper: Helper | None = None
        self._turn = asyncio.Lock()
        self._log_fd = os.memfd_create("turngym-log")

    async def ready(self) -> Helper:
        """The helper, which is begun if it does not run.

        Raises:
            SandboxUnavailable: it does not begin.
        """
        # A begin that is broken off would be begun twice.
        return await asyncio.shield(asyncio.ensure_future(self._begun()))

    async def branch(self, request: dict[str, Any], join_fds: list[int]) -> Branch:
        """A helper for one slot.

        Raises:
            SandboxUnavailable: it cannot be started; the message says why.
        """
        helper = await self.ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = await helper.ask({**request, "verb": "branch"}, [*join_fds, theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return Branch(Helper(ours), pid)

    def log(self) -> str:
        """The last that the processes had to say about themselves."""
        if self._log_fd < 0:
            return ""
        size = os.fstat(self._log_fd).st_size
        return os.pread(self._log_fd, 2000, max(0, size - 2000)).decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the helper and everything that it started. Safe to call twice."""
        if self._helper is not None:
            self._helper.close()
            self._helper = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd = -1

    async def _begun(self) -> Helper:
        async with self._turn:
            if self._helper is None or self._process is None or self._process.poll() is not None:
                self._helper = await asyncio.to_thread(self._begin)
            return self._helper

    def _begin(self) -> Helper:
        if self._helper is not None:
            self._helper.close()  # to one that has ended
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        blob = os.memfd_create("turngym-supervisor")
        try:
            os.write(blob, compiled(self._python))
            command = [
                self._python,
                "-I",
                "-S",
                "-c",
                BOOT_COMPILED,
                str(blob),
                "launch",
                str(theirs.fileno()),
            ]
            self._process = subprocess.Popen(
                [*command, ",".join(self._preload), *self._paths],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._log_fd,
                pass_fds=(blob, theirs.fileno()),
                env={"LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxUnavailable(f"the sandboxes' helper cannot be started: {error}") from error
        except BaseException:
            ours.close()
            raise
        finally:
            os.close(blob)
            theirs.close()
        ours.settimeout(_ANSWER_S)
        try:
            ready = ours.recv(1 << 16)
        except OSError as error:
            ours.close()
            raise SandboxUnavailable(f"the sandboxes' helper does not answer: {error}") from error
        if not ready:
            ours.close()
            raise SandboxUnavailable(f"the sandboxes' helper has ended: {self.log()}")
        return Helper(ours)


async def _readable(fd: int, timeout_s: float) -> bool:
    """Wait until a descriptor is readable; False if it is not in time."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ready.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)
    return True
