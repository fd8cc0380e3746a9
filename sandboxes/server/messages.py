"""What a client may ask, as models that forbid everything else, and what comes back: results and errors by name.

No message has a field for a path of the server's machine, a mount, a user or a privilege: what cannot be said
cannot be asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError

from turngym.sandboxes.errors import (
    FileError,
    FileTooLarge,
    SandboxBusy,
    SandboxError,
    SandboxLost,
    SandboxUnavailable,
    SessionLost,
    TooWeak,
)
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.results import ExecResult, SessionResult
from turngym.sandboxes.server.wire import WireError

Text = InstanceOf[str]
"""Text that may hold lone surrogates."""

ERRORS: Final[dict[str, type[Exception]]] = {
    kind.__name__: kind
    for kind in (
        SandboxError,
        SandboxUnavailable,
        TooWeak,
        SandboxBusy,
        SandboxLost,
        SessionLost,
        FileError,
        FileTooLarge,
        ValueError,
        TypeError,
    )
}
"""Exceptions that cross the wire, by name. Nothing else is ever made of an answer."""


class Message(BaseModel):
    """A request's values."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Create(Message):
    """Make a sandbox."""

    limits: Limits
    lease_s: float = Field(gt=0)
    """How long it lives without a sign of life."""
    image: str | None = None
    """Name of one of the server's images; None for its usual sandbox."""


class Renew(Message):
    """Say which sandboxes are still wanted, and which are not."""

    sandboxes: list[str] = Field(max_length=100_000)
    dropped: list[str] = Field(default=[], max_length=100_000)


class Exec(Message):
    """Run a program."""

    argv: list[Text]
    stdin: bytes
    cwd: Text
    env: dict[Text, Text]
    limits: Limits | None = None
    reply_bytes: int | None = Field(default=None, ge=0)


class Ping(Message):
    """See whether the sandbox answers."""


class Read(Message):
    """Read a file."""

    path: Text
    max_bytes: int


class Write(Message):
    """Write a file."""

    path: Text
    data: bytes
    executable: bool


class Pack(Message):
    """Make a tar of a folder."""

    path: Text
    max_bytes: int


class Unpack(Message):
    """Write a tar's files."""

    data: bytes
    path: Text
    max_bytes: int


class SessionOpen(Message):
    """Start an interpreter; the call's key becomes its name."""


class SessionRun(Message):
    """Run a piece of code."""

    session: str
    code: bytes
    """UTF-8, with surrogates for what is none."""
    limits: Limits | None = None


class SessionClose(Message):
    """End an interpreter."""

    session: str


M = TypeVar("M", bound=Message)


def read_message(kind: type[M], values: Mapping[str, Any]) -> M:
    """Values as a message.

    Raises:
        WireError: they are none; says which field, and never repeats what it held.
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        what = "; ".join(f"{'.'.join(str(at) for at in e['loc'])}: {e['msg']}" for e in error.errors())
        raise WireError(f"this is no request to {kind.__name__.lower()}: {what[:1000]}") from None


def result_values(result: ExecResult | SessionResult) -> dict[str, Any]:
    """A result as values for the wire."""
    return {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}


def error_values(error: BaseException) -> dict[str, Any]:
    """An error as values for the wire; what has no name there is reported as the sandbox's failure."""
    name = next((kind.__name__ for kind in type(error).__mro__ if kind.__name__ in ERRORS), None)
    message = str(error) if name else f"the sandbox server failed ({type(error).__name__}); its log says more"
    values: dict[str, Any] = {"error": name or "SandboxError", "message": message}
    if isinstance(error, SandboxLost):
        values |= {"stdout": error.stdout, "stderr": error.stderr}
    return values


def raise_error(values: Mapping[str, Any]) -> NoReturn:
    """Raise what an answer reports.

    Raises:
        SandboxError: or any other of `ERRORS`.
    """
    kind = ERRORS.get(str(values.get("error")), SandboxError)
    message = str(values.get("message", "the sandbox server gave no reason"))
    if issubclass(kind, SandboxLost):
        out, err = values.get("stdout"), values.get("stderr")
        raise kind(
            message,
            stdout=out if isinstance(out, bytes) else b"",
            stderr=err if isinstance(err, bytes) else b"",
        )
    raise kind(message)
