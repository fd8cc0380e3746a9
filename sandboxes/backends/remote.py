"""Sandboxes of another machine: the same verbs, results and errors, through a sandbox server (see `server/`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from turngym.sandboxes.capabilities import CAPABILITIES, Capabilities
from turngym.sandboxes.client.link import Address, Link, Unreachable
from turngym.sandboxes.client.renewal import Renewal
from turngym.sandboxes.errors import (
    FileTooLarge,
    SandboxError,
    SandboxLost,
    SandboxUnavailable,
    SessionLost,
)
from turngym.sandboxes.host.answers import exec_request
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.results import ExecResult, SessionResult

_ROOM: Final = 1 << 20
_EXEC: Final = TypeAdapter(ExecResult)
_SESSION: Final = TypeAdapter(SessionResult)

R = TypeVar("R")


class RemoteConfig(BaseModel):
    """Where a sandbox server is, and how patient to be with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(pattern=r"^https?://[^/\s@]+/?$")
    """Such as `https://sandboxes.example:8765`. A token in it would end up in logs: it has no place there."""
    token_env: str = "TURNGYM_SANDBOX_TOKEN"
    """Environment variable with the bearer token; may be unset where the server needs none."""
    token_file: Path | None = None
    """File with the token instead."""
    ca_file: Path | None = None
    """PEM file of the authority that signed the server's certificate; default: those of the system."""
    image: str | None = None
    """One of the images that the server offers; default: its usual sandbox."""
    lease_s: float = Field(default=60.0, ge=1, le=86400)
    """How long the server keeps a sandbox of a client that has gone silent."""
    connect_s: float = Field(default=10.0, gt=0)
    """Time for one connection to be made."""
    retry_s: float = Field(default=30.0, ge=0)
    """How long a server that does not answer is asked again before a sandbox counts as lost."""
    busy_s: float = Field(default=60.0, ge=0)
    """How long a server without room is asked again before `SandboxBusy`."""
    close_s: float = Field(default=5.0, ge=0)
    """The same for the end of a sandbox, which the server ends in any case when its lease runs out."""

    def address(self) -> Address:
        """The server and the token, read now.

        Raises:
            SandboxUnavailable: the token's file cannot be read, or holds none.
        """
        try:
            token = (
                self.token_file.read_text("utf-8") if self.token_file else os.environ.get(self.token_env, "")
            )
        except OSError as error:
            raise SandboxUnavailable(f"the token file {self.token_file}: {error.strerror}") from error
        token = token.strip()
        if not (token.isascii() and token.isprintable()):
            raise SandboxUnavailable(
                "the token of the sandbox server holds more than printable ASCII characters"
            )
        return Address(
            self.url.rstrip("/"), token, str(self.ca_file) if self.ca_file else None, self.connect_s
        )


class RemoteBackend:
    """Borrows sandboxes from a server. May be used from several event loops; each sandbox from one at a time."""

    def __init__(self, config: RemoteConfig) -> None:
        self.config = config
        address = config.address()
        self.link = Link(address, retry_s=config.retry_s, busy_s=config.busy_s)
        self.renewal = Renewal(address, config.lease_s)
        self._sandboxes: weakref.WeakSet[RemoteSandbox] = weakref.WeakSet()
        self._found: Capabilities | None = None
        self._closed = False
        weakref.finalize(self, self.renewal.stop)

    @property
    def name(self) -> str:
        """What it is called in configurations."""
        return "remote"

    async def capabilities(self) -> Capabilities:
        """What the server's sandboxes enforce there."""
        if self._found is None:
            image = f"?{urlencode({'image': self.config.image})}" if self.config.image else ""
            values = await self.link.ask("GET", f"/v1/capabilities{image}")
            enforced = frozenset(name for name in CAPABILITIES if name in values["enforced"])
            remedies = {name: str(values["remedies"].get(name, "")) for name in CAPABILITIES}
            self._found = Capabilities(
                f"remote ({values['backend']})",
                enforced,
                {name: why for name, why in remedies.items() if why},
            )
        return self._found

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> RemoteSandbox:
        """A fresh sandbox (see `Backend.create`).

        Raises:
            SandboxBusy: the server had no room in time.
            ValueError: the server does not give so much.
        """
        if self._closed:
            raise SandboxUnavailable("this sandbox backend is closed")
        name = secrets.token_hex(16)
        order = {"limits": limits.model_dump(), "lease_s": self.config.lease_s, "image": self.config.image}
        try:
            made = await self.link.ask("PUT", f"/v1/sandboxes/{name}", order)
        except BaseException:
            self.renewal.drop(name)
            raise
        sandbox = RemoteSandbox(self, name, limits, max_body_bytes=int(made["max_body_bytes"]))
        self.renewal.add(name, sandbox)
        self._sandboxes.add(sandbox)
        return sandbox

    async def close(self) -> None:
        """Close every sandbox that it made. Safe to call twice."""
        self._closed = True
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        self.renewal.stop()
        await asyncio.to_thread(self.renewal.join)
        await self.link.close()


class RemoteSandbox:
    """A sandbox that the server keeps for us."""

    def __init__(self, backend: RemoteBackend, name: str, limits: Limits, *, max_body_bytes: int) -> None:
        self._backend = backend
        self._name = name
        self._limits = limits
        self._max_body_bytes = max_body_bytes
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
        env = dict(env or {})
        exec_request(  # refuses here what it would refuse there
            argv, stdin=stdin, cwd=cwd, env=env, limits=limits or self._limits, reply_bytes=reply_bytes
        )
        values = {
            "argv": list(argv),
            "stdin": bytes(stdin),
            "cwd": cwd,
            "env": env,
            "reply_bytes": reply_bytes,
        }
        answer = await self._ask("exec", {**values, "limits": _dump(limits)})
        return _made(_EXEC, answer)

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """The content of a regular file (see `Sandbox.read_file`)."""
        return _data(await self._ask("read", {"path": path, "max_bytes": max_bytes}))

    async def write_file(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file (see `Sandbox.write_file`)."""
        await self._ask("write", {"path": path, "data": bytes(data), "executable": executable})

    async def pack(self, path: str = ".", *, max_bytes: int = 64 << 20) -> bytes:
        """A tar of a folder (see `Sandbox.pack`)."""
        return _data(await self._ask("pack", {"path": path, "max_bytes": max_bytes}))

    async def unpack(self, data: bytes, path: str = ".", *, max_bytes: int = 64 << 20) -> None:
        """Write a tar's files (see `Sandbox.unpack`)."""
        await self._ask("unpack", {"data": bytes(data), "path": path, "max_bytes": max_bytes})

    async def session(self) -> RemoteSession:
        """Start a stateful interpreter (see `Sandbox.session`)."""
        return RemoteSession(self, str((await self._ask("session_open", {}))["session"]))

    async def ping(self) -> None:
        """Return if the sandbox answers (see `Sandbox.ping`)."""
        await self._ask("ping", {})

    async def close(self) -> None:
        """End everything in it. Safe to call twice."""
        if not self._closed:
            self._closed = True
            self._backend.renewal.remove(self._name)
            with contextlib.suppress(SandboxError):
                close_s = self._backend.config.close_s
                await self._backend.link.ask("DELETE", f"/v1/sandboxes/{self._name}", retry_s=close_s)

    async def _ask(self, verb: str, values: dict[str, Any]) -> dict[str, Any]:
        """One call and its answer. A call that was given up ends the sandbox, as it does on this machine."""
        size = sum(len(value) for value in values.values() if isinstance(value, bytes)) + _ROOM
        if size > self._max_body_bytes:
            kind = FileTooLarge if verb in ("write", "unpack") else ValueError
            raise kind(f"too much at once: the sandbox server takes {self._max_body_bytes} bytes")
        async with self._turn:
            if self._closed:
                raise SandboxLost("the sandbox is closed")
            if self._lost:
                raise SandboxLost(self._lost)
            path = f"/v1/sandboxes/{self._name}/{verb}"
            try:
                return await self._backend.link.ask("POST", path, values, key=secrets.token_hex(16))
            except SessionLost:
                raise
            except SandboxLost as error:
                self._give_up(str(error))
                raise
            except Unreachable as error:
                self._give_up(str(error))
                raise SandboxLost(self._lost) from error
            except asyncio.CancelledError:
                self._give_up("the sandbox is gone: an earlier call broke off")
                raise

    def _give_up(self, why: str) -> None:
        self._lost = "the sandbox is closed" if self._closed else why
        self._backend.renewal.drop(self._name)


class RemoteSession:
    """The interpreter of a `RemoteSandbox`."""

    def __init__(self, sandbox: RemoteSandbox, name: str) -> None:
        self._sandbox = sandbox
        self._name = name
        self._closed = False

    async def run(self, code: str, *, limits: Limits | None = None) -> SessionResult:
        """Run statements (see `Session.run`)."""
        values = {
            "session": self._name,
            "code": code.encode("utf-8", "surrogateescape"),
            "limits": _dump(limits),
        }
        return _made(_SESSION, await self._sandbox._ask("session_run", values))

    async def close(self) -> None:
        """End the interpreter. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._sandbox._ask("session_close", {"session": self._name})


def _dump(limits: Limits | None) -> dict[str, Any] | None:
    return None if limits is None else limits.model_dump()


def _made(kind: TypeAdapter[R], answer: Mapping[str, Any]) -> R:
    """An answer as a result.

    Raises:
        SandboxLost: it is none.
    """
    try:
        return kind.validate_python(answer)
    except ValidationError as error:
        raise SandboxLost(
            f"the sandbox server gave an answer that is none: {error.error_count()} errors"
        ) from None


def _data(answer: Mapping[str, Any]) -> bytes:
    data = answer.get("data")
    if not isinstance(data, bytes):
        raise SandboxLost("the sandbox server gave an answer that is none: it holds no bytes")
    return data
