"""What a backend really enforces on this machine, found by trying, and what a user of it may ask for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from turngym.sandboxes.errors import TooWeak

Capability = Literal[
    "files",
    "network",
    "processes",
    "credentials",
    "syscalls",
    "hard_memory",
    "hard_processes",
    "hard_disk",
    "own_uid",
    "kernel",
    "sessions",
    "loopback",
]

CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)

MEANINGS: Final[dict[Capability, str]] = {
    "files": "files of the host are out of reach, but for a read-only system",
    "network": "no network is reachable unless it is asked for",
    "processes": "programs neither see nor signal processes outside, and none survives",
    "credentials": "no capability of the kernel, and no way to get one",
    "syscalls": "a filter stops system calls that programs do not need",
    "hard_memory": "the kernel bounds the memory of all programs together",
    "hard_processes": "the kernel bounds the number of processes",
    "hard_disk": "the kernel bounds the bytes and the number of files",
    "own_uid": "programs run under a user id that nothing else on the host has",
    "kernel": "programs do not share the host's kernel (a virtual machine, gVisor)",
    "sessions": "a stateful interpreter is available",
    "loopback": "servers and clients within the sandbox reach each other",
}
"""What each name means."""

UNTRUSTED: Final[frozenset[Capability]] = frozenset(
    {"files", "network", "processes", "credentials", "syscalls", "hard_disk"}
)
"""What code that nobody has read needs, at the least."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one backend enforces here."""

    backend: str
    enforced: frozenset[Capability]
    """What was seen to hold."""
    remedies: dict[Capability, str] = field(default_factory=dict)
    """For what is missing: why, and what would help."""

    def missing(self, needs: Iterable[Capability]) -> list[Capability]:
        """What is asked for and not enforced, in the order of the table above."""
        wanted = set(needs)
        return [name for name in CAPABILITIES if name in wanted and name not in self.enforced]

    def require(self, needs: Iterable[Capability]) -> None:
        """Refuse a backend that is too weak.

        Raises:
            TooWeak: something of `needs` is not enforced.
        """
        missing = self.missing(needs)
        if missing:
            why = "; ".join(
                f"{name} ({self.remedies.get(name) or 'not enforced: ' + MEANINGS[name]})" for name in missing
            )
            raise TooWeak(f"the sandbox backend {self.backend!r} is too weak here, it lacks: {why}")
