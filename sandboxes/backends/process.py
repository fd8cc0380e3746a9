"""A plain child process with limits: no isolation, for trusted code and machines that have nothing better."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from typing import Final

from turngym.sandboxes.backends.namespace import system_python
from turngym.sandboxes.capabilities import CAPABILITIES, Capabilities
from turngym.sandboxes.errors import SandboxLost, SandboxUnavailable
from turngym.sandboxes.host.bundle import BOOT_COMPILED, compiled
from turngym.sandboxes.host.channel import HostChannel
from turngym.sandboxes.host.supervised import SupervisedSandbox
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits

_READY_S: Final = 20.0
_END_S: Final = 10.0


class _Lease:
    """A supervisor that is an ordinary child, and its folder."""

    def __init__(
        self, backend: ProcessBackend, process: subprocess.Popen[bytes], link: socket.socket, folder: str
    ) -> None:
        self._backend = backend
        self._process = process
        self._folder = folder
        self.channel_to_supervisor = HostChannel(link)
        self._released = False

    @property
    def channel(self) -> HostChannel:
        """To the supervisor."""
        return self.channel_to_supervisor

    async def release(self) -> None:
        """Hang up: the supervisor ends its programs and itself."""
        if self._released:
            return
        self._released = True
        self._backend._leases.discard(self)
        self.channel.close()
        await asyncio.to_thread(self._wait)

    def _wait(self) -> None:
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class ProcessBackend:
    """Runs programs as children of this user, on this system. Not a wall: `unsafe` says that the caller knows.

    Args:
        unsafe: must be True: whatever the programs are, they can read and write what this user can.
        python: the interpreter of the supervisor.
    """

    def __init__(self, *, unsafe: bool = False, python: str | None = None) -> None:
        if not unsafe:
            raise SandboxUnavailable(
                "the `subprocess` backend isolates nothing: use `namespace` or `docker`, "
                "or say unsafe=True for programs that you trust like your own"
            )
        self._python = python or system_python()
        self._leases: set[_Lease] = set()
        self._closed = False

    @property
    def name(self) -> str:
        """What it is called in configurations."""
        return "subprocess"

    async def capabilities(self) -> Capabilities:
        """Nothing that would stop a program that means harm."""
        why = "a plain child process: use namespace or docker"
        return Capabilities(self.name, frozenset(), dict.fromkeys(CAPABILITIES, why))

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> SupervisedSandbox:
        """A fresh folder and a supervisor (see `Backend.create`)."""
        if self._closed:
            raise SandboxUnavailable("this sandbox backend is closed")
        folder = tempfile.mkdtemp(prefix="turngym-process-")
        home = os.path.join(folder, "home")
        ours, theirs = socket.socketpair()
        starting = asyncio.ensure_future(asyncio.to_thread(self._start, theirs))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            ours.close()
            await asyncio.shield(self._undo(starting, theirs, folder))
            raise
        except BaseException:
            ours.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            theirs.close()
        lease = _Lease(self, process, ours, folder)
        self._leases.add(lease)
        try:
            await lease.channel.send(
                {
                    "ends": "children",
                    "home": home,
                    "uid": os.getuid(),
                    "gid": os.getgid(),
                    "filter": b"",
                    "soft_memory": 1,
                    "uid_is_own": 0,
                    "warm": 0,
                    "preload": 0,
                    "folders": [home],
                }
            )
            await lease.channel.receive(_READY_S)
        except SandboxLost as error:
            await asyncio.shield(lease.release())
            raise SandboxUnavailable(f"the supervisor does not start: {error}") from error
        except BaseException:
            await asyncio.shield(lease.release())
            raise
        return SupervisedSandbox(lease, limits, home=home, env={"TMPDIR": home}, sessions=False)

    async def close(self) -> None:
        """Close every sandbox that it made. Safe to call twice."""
        self._closed = True
        for lease in list(self._leases):
            await lease.release()

    async def _undo(
        self, starting: asyncio.Future[subprocess.Popen[bytes]], link: socket.socket, folder: str
    ) -> None:
        """Take a start to its end and the process to its own: one that nobody waits for stays a zombie."""
        with contextlib.suppress(SandboxUnavailable):
            process = await starting
            link.close()
            await asyncio.to_thread(process.wait)  # its channel is closed
        shutil.rmtree(folder, ignore_errors=True)

    def _start(self, link: socket.socket) -> subprocess.Popen[bytes]:
        code = os.memfd_create("turngym-supervisor")
        try:
            os.write(code, compiled(self._python))
            return subprocess.Popen(
                [self._python, "-I", "-S", "-c", BOOT_COMPILED, str(code), "supervise"]
                + [str(link.fileno())] * 2,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(code, link.fileno()),
                env={"LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(f"the supervisor cannot be started: {error}") from error
        finally:
            os.close(code)
