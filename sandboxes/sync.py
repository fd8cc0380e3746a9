"""The blocking face of a sandbox, for scripts, notebooks and synchronous environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from turngym.sandboxes import async_bridge
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.protocols import Backend, Sandbox, Session
from turngym.sandboxes.results import ExecResult, SessionResult


class SyncSandbox:
    """Every verb of `Sandbox`, run to its end on a background event loop.

    with SyncSandbox.create(NamespaceBackend()) as sandbox:
        print(sandbox.exec(["python3", "-c", "print(6 * 7)"]).stdout_text)
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    @classmethod
    def create(cls, backend: Backend, limits: Limits = DEFAULT_LIMITS) -> Self:
        """A fresh sandbox of a backend."""
        return cls(async_bridge.run(backend.create(limits)))

    def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        reply_bytes: int | None = None,
    ) -> ExecResult:
        """Run a program to its end."""
        return async_bridge.run(
            self._sandbox.exec(argv, stdin=stdin, cwd=cwd, env=env, limits=limits, reply_bytes=reply_bytes)
        )

    def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """The content of a regular file."""
        return async_bridge.run(self._sandbox.read_file(path, max_bytes=max_bytes))

    def write_file(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file."""
        async_bridge.run(self._sandbox.write_file(path, data, executable=executable))

    def pack(self, path: str = ".", *, max_bytes: int = 64 << 20) -> bytes:
        """A tar of a folder."""
        return async_bridge.run(self._sandbox.pack(path, max_bytes=max_bytes))

    def unpack(self, data: bytes, path: str = ".", *, max_bytes: int = 64 << 20) -> None:
        """Write a tar's files."""
        async_bridge.run(self._sandbox.unpack(data, path, max_bytes=max_bytes))

    def session(self) -> SyncSession:
        """Start a stateful Python interpreter."""
        return SyncSession(async_bridge.run(self._sandbox.session()))

    def close(self) -> None:
        """End everything in it. Safe to call twice."""
        async_bridge.run(self._sandbox.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SyncSession:
    """The blocking face of a `Session`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, code: str, *, limits: Limits | None = None) -> SessionResult:
        """Run statements."""
        return async_bridge.run(self._session.run(code, limits=limits))

    def close(self) -> None:
        """End the interpreter. Safe to call twice."""
        async_bridge.run(self._session.close())
