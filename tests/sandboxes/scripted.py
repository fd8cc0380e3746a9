"""A backend whose sandboxes do what their arguments say, so that every way in which a call can go is one line."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from turngym.sandboxes.capabilities import Capabilities
from turngym.sandboxes.errors import FileError, SandboxLost, SandboxUnavailable, SessionLost
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.results import ExecResult, SessionResult


class ScriptedSession:
    def __init__(self) -> None:
        self.total = 0

    async def run(self, code: str, *, limits: Limits | None = None) -> SessionResult:
        if code == "die":
            raise SessionLost("the interpreter died", stdout=b"half", stderr=b"\xff")
        self.total += len(code)
        return SessionResult("ok", b"", b"", False, False, str(self.total), 0.0)

    async def close(self) -> None:
        pass


class ScriptedSandbox:
    """`sleep S`, `write N` (bytes), `lost`, `break`, or anything: which is recorded."""

    def __init__(self, backend: ScriptedBackend, limits: Limits) -> None:
        self.backend = backend
        self.limits = limits
        self.closed = False
        self.files: dict[str, bytes] = {}

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
        self.backend.ran.append(list(argv))
        out = stdin
        if argv[0] == "sleep":
            await asyncio.sleep(float(argv[1]))
        elif argv[0] == "write":
            out = bytes(int(argv[1]))
        elif argv[0] == "lost":
            raise SandboxLost("it fell over", stdout=b"so far", stderr=b"\xff")
        elif argv[0] == "break":
            raise KeyError("a secret")
        return ExecResult("exited", 0, None, out, b"", False, False, 0.25, 0.125, 1.5)

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        if path not in self.files:
            raise FileError(f"{path!r}: no such file")
        return self.files[path]

    async def write_file(self, path: str, data: bytes, *, executable: bool = False) -> None:
        self.files[path] = data

    async def pack(self, path: str = ".", *, max_bytes: int = 64 << 20) -> bytes:
        return b"tar"

    async def unpack(self, data: bytes, path: str = ".", *, max_bytes: int = 64 << 20) -> None:
        self.files[path] = data

    async def session(self) -> ScriptedSession:
        return ScriptedSession()

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.closed = True


class ScriptedBackend:
    def __init__(self, create_s: float = 0.0, error: Exception | None = None) -> None:
        self.create_s = create_s
        self.error = error
        self.made: list[ScriptedSandbox] = []
        self.ran: list[list[str]] = []

    @property
    def name(self) -> str:
        return "scripted"

    @property
    def living(self) -> int:
        return sum(not sandbox.closed for sandbox in self.made)

    async def capabilities(self) -> Capabilities:
        return Capabilities("scripted", frozenset({"files", "sessions"}), {"kernel": "it is a script"})

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> ScriptedSandbox:
        await asyncio.sleep(self.create_s)
        if self.error is not None:
            raise self.error
        self.made.append(ScriptedSandbox(self, limits))
        return self.made[-1]

    async def close(self) -> None:
        for sandbox in self.made:
            await sandbox.close()


def unavailable() -> SandboxUnavailable:
    return SandboxUnavailable("no kernel here: install one")
