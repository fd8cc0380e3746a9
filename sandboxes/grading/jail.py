"""One run of a candidate in a sandbox of its own, and who is to blame if that sandbox is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Final

from turngym.sandboxes.errors import SandboxBusy, SandboxError, SandboxUnavailable
from turngym.sandboxes.grading.verdicts import CaseResult
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.protocols import Backend
from turngym.sandboxes.results import ExecResult

MAX_SOURCE: Final = 1 << 19
"""Bytes of the longest candidate; it fits on the smallest disk."""
_HARMLESS: Final = ("python3", "-c", "import os; os.write(3, b'alive')")


class Jail:
    """Runs programs, each in a fresh sandbox, a bounded number at once.

    Args:
        backend: makes the sandboxes; whoever grades untrusted code has asked it for `UNTRUSTED` before.
        at_once: how many run at the same time; default: one for each processor.
        tries: how often a run is tried whose sandbox is lost.
    """

    def __init__(self, backend: Backend, *, at_once: int | None = None, tries: int = 3) -> None:
        at_once = at_once or len(os.sched_getaffinity(0))
        if at_once < 1 or tries < 1:
            raise ValueError(f"at_once and tries are at least 1, not {at_once} and {tries}")
        self.backend = backend
        self.at_once = at_once
        self.tries = tries
        self._room = asyncio.Semaphore(at_once)
        self._has_python = False
        self.trusted_room = asyncio.Semaphore(at_once)
        """For sandboxes of trusted tests, which wait for runs of candidates, never the reverse."""

    async def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes,
        limits: Limits,
        files: Mapping[str, bytes] | None = None,
        reply_bytes: int | None = None,
    ) -> ExecResult | None:
        """Run a program in a fresh sandbox; None if it is the program that ends its sandboxes.

        Raises:
            SandboxError: the sandboxes are broken, not the program.
        """
        for attempt in range(self.tries):
            began = False
            try:
                async with self._room, await self.backend.create(limits) as sandbox:
                    for path, data in (files or {}).items():
                        await sandbox.write_file(path, data)
                    began = True
                    return await sandbox.exec(argv, stdin=stdin, reply_bytes=reply_bytes)
            except SandboxBusy:  # it has waited already
                raise
            except SandboxError:
                if attempt + 1 == self.tries and not (began and await self.is_sound()):
                    raise
        return None

    async def require_python(self) -> None:
        """Make sure, once, that there is a Python inside: where there is none, every candidate would fail.

        Raises:
            SandboxError: the sandboxes are broken, or have no Python.
        """
        if not self._has_python:
            result = await self.run(_HARMLESS, stdin=b"", limits=DEFAULT_LIMITS, reply_bytes=16)
            if result is None or result.reply != b"alive":
                raise SandboxUnavailable(
                    f"no python3 runs in the sandbox: {last_line(result) if result else ''}"
                )
            self._has_python = True

    async def is_sound(self) -> bool:
        """True if a harmless program lives in a sandbox of this backend, here and now."""
        try:
            async with self._room, await self.backend.create(DEFAULT_LIMITS) as sandbox:
                return (await sandbox.exec(_HARMLESS, reply_bytes=16)).reply == b"alive"
        except SandboxError:
            return False


def ended_badly(result: ExecResult | None) -> CaseResult:
    """The result of a case whose program did not come to an end by itself."""
    if result is None:
        return CaseResult("sandbox_lost", "every sandbox that it ran in was lost")
    used = {"wall_s": result.wall_s, "cpu_s": result.cpu_s}
    if result.status == "signalled":
        return CaseResult("signalled", f"ended by signal {result.signal}", **used)
    if result.status == "timeout":
        return CaseResult("timeout", f"stopped after {result.wall_s:.2f} s", **used)
    assert result.status != "exited"
    return CaseResult(result.status, "", **used)


def last_line(result: ExecResult) -> str:
    """The last that a program wrote to its standard error: usually the exception."""
    return result.stderr_text.strip().rpartition("\n")[2][:1000]
