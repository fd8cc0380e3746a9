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

_START_S: Final = 60.0
_ANSWER_S: Final = 20.0
_END_S: Final = 10.0


class Started:
    """A process that the launcher has started, and the channel to the supervisor in it."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.channel = HostChannel(link)
        self._pid_fd = os.pidfd_open(pid)

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


class Launcher:
    """One helper process per backend.

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
        self._control: socket.socket | None = None
        self._turn = asyncio.Lock()
        self._asked = 0
        self._log_fd = os.memfd_create("turngym-log")

    async def ready(self) -> None:
        """Begin the helper if it does not run.

        Raises:
            SandboxUnavailable: it does not begin.
        """
        await asyncio.shield(
            asyncio.ensure_future(self._run_in_turn())
        )  # a begin that is broken off is begun twice

    async def start(self, request: dict[str, Any], fds: list[int]) -> Started:
        """Ask for a process. The descriptors are passed on and stay open here.

        The first that it gets is its end of the channel.

        Raises:
            SandboxUnavailable: it cannot be started; the message says why.
        """
        exchange = asyncio.ensure_future(self._exchange(request, fds))
        try:
            return await asyncio.shield(exchange)
        except asyncio.CancelledError:
            # A question that has been sent is answered, and its descriptors are in use until then.
            with contextlib.suppress(SandboxUnavailable):
                await (await asyncio.shield(exchange)).kill()
            raise

    async def _exchange(self, request: dict[str, Any], fds: list[int]) -> Started:
        ours, theirs = socket.socketpair()
        try:
            async with self._turn:
                await self._run()
                assert self._control is not None
                joins = fds[: request["joins"]]
                rest = fds[request["joins"] :]
                order = (
                    [theirs.fileno(), *joins, *rest]
                    if request["verb"] == "keep"
                    else [*joins, theirs.fileno(), *rest]
                )
                self._asked += 1
                socket.send_fds(self._control, [encode({**request, "serial": self._asked})], order)
                answer = await asyncio.to_thread(self._answer_to, self._asked)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        if "pid" not in answer:
            ours.close()
            raise SandboxUnavailable(
                f"a sandbox cannot be started: {answer['message'].decode('utf-8', 'replace')}"
            )
        return Started(answer["pid"], ours)

    def log(self) -> str:
        """The last that the processes had to say about themselves."""
        if self._log_fd < 0:
            return ""
        size = os.fstat(self._log_fd).st_size
        return os.pread(self._log_fd, 2000, max(0, size - 2000)).decode("utf-8", "replace").strip()

    def close(self) -> None:
        """End the helper and everything that it started. Safe to call twice."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd = -1

    async def _run_in_turn(self) -> None:
        async with self._turn:
            await self._run()

    async def _run(self) -> None:
        if self._process is None or self._process.poll() is not None:
            await asyncio.to_thread(self._begin)

    def _begin(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        blob = os.memfd_create("turngym-supervisor")
        try:
            os.write(blob, compiled(self._python))
            self._process = subprocess.Popen(
                [
                    self._python,
                    "-I",
                    "-S",
                    "-c",
                    BOOT_COMPILED,
                    str(blob),
                    "launch",
                    str(theirs.fileno()),
                    ",".join(self._preload),
                    *self._paths,
                ],
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
        finally:
            os.close(blob)
            theirs.close()
        ours.settimeout(_START_S)
        if self._control is not None:
            self._control.close()  # to one that has ended
        self._control = ours
        self._answer()

    def _answer_to(self, serial: int) -> Any:
        """The answer to one question; a late one to an earlier question, which was given up, is passed over."""
        while True:
            answer = decode(self._answer())
            if answer.get("serial") == serial:
                return answer

    def _answer(self) -> bytes:
        assert self._control is not None
        self._control.settimeout(_ANSWER_S)
        try:
            data = self._control.recv(1 << 16)
        except OSError as error:
            raise SandboxUnavailable(
                f"the sandboxes' helper does not answer: {error} {self.log()}"
            ) from error
        if not data:
            raise SandboxUnavailable(f"the sandboxes' helper has ended: {self.log()}")
        return data


async def _readable(fd: int, timeout_s: float) -> None:
    """Wait until a descriptor is readable."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        async with asyncio.timeout(timeout_s):
            await ready.wait()
    except TimeoutError:
        return
    finally:
        loop.remove_reader(fd)
