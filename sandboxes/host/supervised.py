"""A sandbox that a supervisor serves over a channel: what every backend on this machine hands out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Protocol, Self

from turngym.sandboxes.errors import SandboxLost, SandboxUnavailable
from turngym.sandboxes.host.answers import (
    exec_request,
    exec_result,
    limit_fields,
    program_env,
    raise_error,
    session_result,
)
from turngym.sandboxes.host.channel import EndedForMemory, HostChannel
from turngym.sandboxes.host.tars import Entry, make_tar, read_tar
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.results import ExecResult, SessionResult

_GRACE_S: Final = 10.0
_FILE_S: Final = 30.0


class Lease(Protocol):
    """What a backend keeps for one sandbox: the channel to its supervisor, and the way to end it."""

    @property
    def channel(self) -> HostChannel:
        """To the supervisor."""

    async def release(self) -> None:
        """End everything in the sandbox, whatever state it is in. Called once."""


class SupervisedSandbox:
    """Speaks the supervisor's protocol on a lease."""

    def __init__(
        self,
        lease: Lease,
        limits: Limits,
        *,
        home: str,
        env: Mapping[str, str] | None = None,
        sessions: bool = True,
    ) -> None:
        self._lease = lease
        self._limits = limits
        self._env = program_env(home, env)
        self._sessions = sessions
        self._turn = asyncio.Lock()
        self._closed = False
        self._lost = ""

    @property
    def limits(self) -> Limits:
        """What it was made with."""
        return self._limits

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        reply_bytes: int | None = None,
    ) -> ExecResult:
        """Run a program to its end (see `Sandbox.exec`)."""
        limits = self._checked(limits)
        request = exec_request(
            argv,
            stdin=stdin,
            cwd=cwd,
            env={**self._env, **(env or {})},
            limits=limits,
            reply_bytes=reply_bytes,
        )
        began = time.monotonic()
        try:
            answer = await self._ask(request, limits.wall_s + _GRACE_S)
        except (
            EndedForMemory
        ):  # the program's doing, and a result; the next call says that the sandbox is gone
            wall_s = time.monotonic() - began
            return ExecResult("oom", None, None, b"", b"", False, False, wall_s, 0.0, limits.memory_mib)
        return exec_result(answer, limits)

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """The content of a regular file (see `Sandbox.read_file`)."""
        answer = await self._ask({"verb": "read", "path": path, "max_bytes": max_bytes}, _FILE_S)
        raise_error(answer, path)
        data: bytes = answer["data"]
        return data

    async def write_file(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file (see `Sandbox.write_file`)."""
        await self._write([(path, 0o755 if executable else 0o644, bytes(data))], "", path)

    async def pack(self, path: str = ".", *, max_bytes: int = 64 << 20) -> bytes:
        """A tar of a folder (see `Sandbox.pack`)."""
        answer = await self._ask({"verb": "list", "path": path, "max_bytes": max_bytes}, _FILE_S)
        raise_error(answer, path)
        return make_tar(
            [(name.decode("utf-8", "surrogateescape"), mode, data) for name, mode, data in answer["entries"]]
        )

    async def unpack(self, data: bytes, path: str = ".", *, max_bytes: int = 64 << 20) -> None:
        """Write a tar's files (see `Sandbox.unpack`)."""
        await self._write(read_tar(data, max_bytes=max_bytes), path, path)

    async def session(self) -> SupervisedSession:
        """Start a stateful interpreter (see `Sandbox.session`)."""
        if not self._sessions:
            raise SandboxUnavailable("this backend has no sessions: use namespace, docker or remote")
        request = {"verb": "session_open", "env": self._env, "limits": limit_fields(self._limits)}
        raise_error(await self._ask(request, _GRACE_S))
        return SupervisedSession(self)

    async def ping(self) -> None:
        """Return if the supervisor answers (see `Sandbox.ping`)."""
        await self._ask({"verb": "ping"}, _GRACE_S)

    async def close(self) -> None:
        """End everything in it, a call that is running included. Safe to call twice."""
        if not self._closed:
            self._closed = True
            if self._turn.locked():
                self._lease.channel.close()
            await self._lease.release()

    async def _write(self, entries: Sequence[Entry], base: str, path: str) -> None:
        request = {"verb": "write", "base": base, "entries": [list(entry) for entry in entries]}
        raise_error(await self._ask(request, _FILE_S), path)

    async def _ask(self, request: dict[str, Any], timeout_s: float) -> Any:
        """One request and its answer.

        Raises:
            SandboxLost: there is none, and there will be none to any later request.
        """
        async with self._turn:
            if self._closed:
                raise SandboxLost("the sandbox is closed")
            if self._lost or self._lease.channel.closed:
                raise SandboxLost(self._lost or "the sandbox is gone: an earlier call broke off")
            try:
                await self._lease.channel.send(request)
                return await self._lease.channel.receive(timeout_s)
            except SandboxLost as error:
                self._lost = str(error)
                raise

    def _checked(self, limits: Limits | None) -> Limits:
        if limits is None:
            return self._limits
        if not limits.fits(self._limits):
            raise ValueError(
                "memory_mib, processes, disk_mib, inodes and network are fixed when a sandbox is made: "
                f"it has {self._limits}, not {limits}"
            )
        return limits


class SupervisedSession:
    """The interpreter of a `SupervisedSandbox`."""

    def __init__(self, sandbox: SupervisedSandbox) -> None:
        self._sandbox = sandbox
        self._closed = False

    async def run(self, code: str, *, limits: Limits | None = None) -> SessionResult:
        """Run statements (see `Session.run`)."""
        limits = self._sandbox._checked(limits)
        request = {"verb": "session_run", "code": code, "limits": limit_fields(limits)}
        return session_result(await self._sandbox._ask(request, limits.wall_s + _GRACE_S))

    async def close(self) -> None:
        """End the interpreter. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._sandbox._ask({"verb": "session_close"}, _GRACE_S)
