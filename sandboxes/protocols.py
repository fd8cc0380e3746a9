"""The seam between what needs a sandbox and what makes one: three protocols with few verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from turngym.sandboxes.capabilities import Capabilities
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.results import ExecResult, SessionResult


class Session(Protocol):
    """A Python interpreter that remembers its variables from call to call."""

    async def run(self, code: str, *, limits: Limits | None = None) -> SessionResult:
        """Run statements; the value of a last expression is reported as a notebook would.

        When the time is up the code is interrupted; if it goes on, the interpreter is killed.

        Raises:
            SessionLost: the interpreter died or had to be killed: variables are gone, files are there.
            SandboxLost: the whole sandbox is gone.
        """

    async def close(self) -> None:
        """End the interpreter. Safe to call twice."""


@runtime_checkable
class Sandbox(Protocol):
    """One trust domain: its programs share files, and nothing with anybody else.

    Calls follow each other; a second call while one runs waits for its turn.
    """

    @property
    def limits(self) -> Limits:
        """What it was made with."""

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
        """Run a program to its end, and end everything that it started.

        Args:
            argv: program and arguments; never a shell line.
            stdin: what it reads; end of file follows.
            cwd: folder to start in, relative to the sandbox's home.
            env: added to the few variables that every program gets.
            limits: of this call; default those of the sandbox.
            reply_bytes: open descriptor 3 for an answer of at most so many bytes.

        Raises:
            ValueError: an argument holds a zero byte, `stdin` is larger than a quarter of the sandbox's memory, or
                `limits` differ in what is fixed for a sandbox.
            SandboxLost: the sandbox is gone, with the output so far.
        """

    async def read_file(self, path: str, *, max_bytes: int = 16 << 20) -> bytes:
        """The content of a regular file in the sandbox's home.

        Raises:
            FileError: there is none, or the path leaves the home, goes through a link, or names something else.
            FileTooLarge: it holds more than `max_bytes`.
        """

    async def write_file(self, path: str, data: bytes, *, executable: bool = False) -> None:
        """Write a file in the sandbox's home, with the folders above it; what stood there is replaced.

        Raises:
            FileError: the path leaves the home, goes through a link, or is a folder; or the disk is full.
        """

    async def pack(self, path: str = ".", *, max_bytes: int = 64 << 20) -> bytes:
        """A tar of the regular files and folders under a folder; links and other nodes are left out.

        Raises:
            FileError, FileTooLarge: as for `read_file`.
        """

    async def unpack(self, data: bytes, path: str = ".", *, max_bytes: int = 64 << 20) -> None:
        """Write the regular files and folders of a tar under a folder.

        Raises:
            FileError: the archive is damaged or names something outside.
            FileTooLarge: it holds more than `max_bytes`, or too many entries.
        """

    async def session(self) -> Session:
        """Start a stateful Python interpreter.

        Raises:
            SandboxUnavailable: this backend has none.
        """

    async def ping(self) -> None:
        """Return if the sandbox answers.

        Raises:
            SandboxLost: it does not.
        """

    async def close(self) -> None:
        """End everything in it and forget its files. Safe to call twice, and never raises for what is gone."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class Backend(Protocol):
    """Makes sandboxes of one kind."""

    @property
    def name(self) -> str:
        """What it is called in configurations."""

    async def capabilities(self) -> Capabilities:
        """What it enforces here. Found by trying once, then remembered."""

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> Sandbox:
        """A fresh sandbox.

        Raises:
            SandboxUnavailable: it cannot be made here; the message says what would help.
        """

    async def close(self) -> None:
        """Close every sandbox that it made. Safe to call twice."""
