"""What a program did, as facts: how it ended, what it wrote, what it used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

Status = Literal["exited", "signalled", "timeout", "oom", "output_limit"]
"""How a program ended: by itself, of a signal, by the time or memory limit, or by writing too much."""

STATUSES: Final[tuple[Status, ...]] = get_args(Status)


@dataclass(frozen=True, slots=True)
class ExecResult:
    """One program's end. Its status comes from the kernel's facts, never from what the program wrote."""

    status: Status
    exit_code: int | None
    """The program's own code if it exited, 124 and 137 included; else None."""
    signal: int | None
    """The number of the signal if it died of one; else None."""
    stdout: bytes
    """At most the limit's bytes. What was written before a timeout is here."""
    stderr: bytes
    stdout_truncated: bool
    """True if it wrote more than is here."""
    stderr_truncated: bool
    wall_s: float
    """From start to end, by the supervisor's clock."""
    cpu_s: float
    """Processor time of the program and of the children that it waited for."""
    peak_memory_mib: float
    """The most memory at once: of the sandbox where the kernel counts it, else of the largest process."""
    reply: bytes | None = None
    """What it wrote to descriptor 3, if the call asked for a reply; None with the status `output_limit` if too much."""

    @property
    def ok(self) -> bool:
        """True if it exited with code 0. This is no evidence that it did what it was asked."""
        return self.status == "exited" and self.exit_code == 0

    @property
    def stdout_text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        """Standard error as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stderr.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class SessionResult:
    """One call of a stateful interpreter."""

    status: Literal["ok", "error", "interrupted"]
    """`error`: an exception ended the code; `interrupted`: the time was up, and the interpreter survived it."""
    stdout: bytes
    stderr: bytes
    """What it wrote, with the traceback of an `error`."""
    stdout_truncated: bool
    stderr_truncated: bool
    value: str | None
    """repr of the last expression, as a notebook shows it; None where there is none."""
    wall_s: float

    @property
    def stdout_text(self) -> str:
        """Standard output as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        """Standard error as text; bytes that are no UTF-8 become U+FFFD."""
        return self.stderr.decode("utf-8", "replace")
