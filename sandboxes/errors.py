"""What can go wrong with a sandbox. A program that fails is a result, never one of these.

SandboxError (RuntimeError)      anything the sandbox itself got wrong
├── SandboxUnavailable           this machine cannot give what was asked for; says what would help
│   └── TooWeak                  it can, but not with the isolation that was asked for
├── SandboxBusy                  no sandbox became free in time
├── SandboxLost                  the sandbox died or stopped answering; carries the output so far
│   └── SessionLost              only its interpreter did: variables are gone, files are there
└── FileError                    the file interface refuses, or the file is not there
    └── FileTooLarge             more bytes than the limit

Misuse (ValueError)              what was asked for cannot be
└── UnknownBackend               there is no backend of that name
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import ValidationError


class Misuse(ValueError):
    """A setting that cannot work, here or anywhere."""


class UnknownBackend(Misuse):
    """There is no backend of that name; the message offers the nearest."""


def first_complaint(error: ValidationError) -> str:
    """The first thing that a configuration got wrong, as one line."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what


class SandboxError(RuntimeError):
    """The sandbox failed, not the program in it."""

    outcome_cause: ClassVar[str] = "sandbox"
    """Who is to blame for an episode that ends with it; it is retried, and never scored."""


class SandboxUnavailable(SandboxError):
    """This machine cannot give such a sandbox; the message says what would help."""


class TooWeak(SandboxUnavailable):
    """The sandbox isolates less than was asked for; the message names what is missing."""


class SandboxBusy(SandboxError):
    """No sandbox became free before the deadline."""


class SandboxLost(SandboxError):
    """The sandbox is gone: it was killed, or it stopped answering."""

    def __init__(self, message: str, *, stdout: bytes = b"", stderr: bytes = b"") -> None:
        super().__init__(message)
        self.stdout = stdout
        """What the program had written to its standard output, as far as it is known."""
        self.stderr = stderr
        """The same of its standard error."""


class SessionLost(SandboxLost):
    """The interpreter of a session is gone, and its variables with it; the sandbox and its files live on."""


class FileError(SandboxError):
    """The file interface refuses this path, or there is no such file."""


class FileTooLarge(FileError):
    """The file, or the folder, holds more than the limit."""
