"""A Python interpreter in a sandbox, as a tool: variables survive from call to call, and a copy repeats the calls.

interpreter = Interpreter()
await interpreter.run("x = 20")        # ""
await interpreter.run("x + 1")         # "21"
"""

from __future__ import annotations

import copy
from typing import Any, Final

from turngym.envs.replay import Replay
from turngym.sandboxes import Limits, Sandbox, Session, SessionResult
from turngym.sandboxes.errors import SessionLost
from turngym.sandboxes.opening import DEFAULT
from turngym.sandboxes.service import sandbox_service

LIMITS: Final = Limits(memory_mib=512, processes=32, disk_mib=64, wall_s=5.0, cpu_s=3600.0)
"""Of an interpreter and of each call, unless told otherwise. Processor time adds up over all calls of an interpreter,
so the wall time is what bounds a call."""
MOST_CHARACTERS: Final = 4_000
"""The longest answer of one call; the middle of a longer one is left out."""
_LAST_LINES: Final = 3


class Interpreter:
    """An interpreter that is started when it is first used.

    A deep copy shares nothing with the original: it repeats all calls in a sandbox of its own when it is first used.
    Programs that print what differs from run to run (times, addresses, sets of strings) cannot be repeated: that is
    an InfrastructureError then, not another episode.

    Args:
        sandbox: the backend's name, as `open_backend` reads it.
        limits: of the sandbox and of each call.
        allow_weaker: accept a backend that does not hold untrusted code in.
    """

    def __init__(
        self, sandbox: str = DEFAULT, *, limits: Limits = LIMITS, allow_weaker: bool = False
    ) -> None:
        service = sandbox_service(sandbox, allow_weaker=allow_weaker)

        async def start() -> _Running:
            return _Running(await service.create(limits))

        self._calls: Replay[_Running, str, str] = Replay(start, _Running.run, _Running.close)

    async def run(self, code: str) -> str:
        """Run statements, and say what came of them: what was printed, the value of a last expression, the last lines
        of an error, or that the time was up.

        Raises:
            SandboxError: the sandbox failed, not the code.
            InfrastructureError: a copy could not repeat the calls before.
        """
        return await self._calls.send(code)

    async def aclose(self) -> None:
        """Free the sandbox. Safe to call twice."""
        await self._calls.aclose()

    def __deepcopy__(self, memo: dict[int, Any]) -> Interpreter:
        twin = object.__new__(Interpreter)
        twin._calls = copy.deepcopy(self._calls, memo)
        return twin


class _Running:
    """A sandbox with a session in it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._session: Session | None = None

    async def run(self, code: str) -> str:
        """One call; an interpreter that died is replaced, and the answer says so."""
        code = code.encode("utf-8", "replace").decode("utf-8")
        if self._session is None:
            self._session = await self._sandbox.session()
        try:
            return told(await self._session.run(code))
        except SessionLost as lost:
            self._session = None
            said = shortened((lost.stdout + lost.stderr).decode("utf-8", "replace"))
            return f"{said}\nThe interpreter was ended by this call: all variables are gone.".lstrip()

    async def close(self) -> None:
        """End the sandbox, and the session with it."""
        await self._sandbox.close()


def told(result: SessionResult) -> str:
    """What came of a call, as a model is told."""
    parts = [shortened(result.stdout_text)]
    if result.status == "error":
        lines = result.stderr_text.strip().split("\n")
        parts.append(shortened("\n".join(lines[-_LAST_LINES:])))
    elif result.status == "interrupted":  # its standard error ends with the interruption's traceback
        parts.append("Stopped: this call took too long. Variables are kept.")
    elif result.stderr.strip():
        parts.append(shortened(result.stderr_text))
    if result.value is not None:
        parts.append(shortened(result.value))
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """A text without its middle, if it is too long."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"
