"""Calls of a candidate's function: each in a fresh sandbox, each answered by one reply on descriptor 3.

The reply is the candidate's claim "it returned this value", whoever wrote it; it is decoded here into tags and
contents and nothing else. One reply and not a byte more: what was written twice counts as nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.grading.jail import MAX_SOURCE, Jail, ended_badly, last_line
from turngym.sandboxes.grading.values import Malformed, Node, encode, parse
from turngym.sandboxes.grading.verdicts import CaseResult, Reason
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.results import ExecResult

MAX_REPLY: Final = 1 << 20
"""Bytes of the largest value that a candidate can return."""
MAX_INPUTS: Final = 1 << 26
"""Bytes of the largest arguments."""
_LONG: Final = 1 << 15
"""Bytes of a reply that is read in a thread: the longest takes a second, and others are waiting."""

_HERE: Final = Path(__file__).parent
_COMPILE: Final = """
import marshal, os, sys
codes = [compile(text, "<turngym>/grading.py", "exec", dont_inherit=True) for text in eval(sys.stdin.buffer.read())]
data = marshal.dumps(codes)
while data:
    data = data[os.write(3, data):]
"""
_BOOT: Final = """
import builtins, marshal, os
def read():
    parts = []
    while part := os.read(0, 1 << 20):
        parts.append(part)
    return b"".join(parts)
data = read()
end = 4 + int.from_bytes(data[:4], "big")
space = {"__builtins__": dict(vars(builtins)), "__name__": "grading"}
for code in marshal.loads(data[4:end]):
    exec(code, space)
space["call"](data[end:])
"""


@dataclass(frozen=True, slots=True)
class Returned:
    """A value came back."""

    value: Node
    reply: bytes
    """The whole reply, well formed, to be passed on."""
    wall_s: float
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised an exception."""

    kind: str
    """Name of its type."""
    message: str
    wall_s: float
    cpu_s: float

    @property
    def result(self) -> CaseResult:
        """It as the end of a case."""
        return CaseResult("exception", f"{self.kind}: {self.message}", self.wall_s, self.cpu_s)


def write_inputs(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Arguments of a call, as they enter a sandbox.

    Raises:
        Unfit: they nest too deep or are too large.
    """
    return encode((list(args), dict(kwargs)), MAX_INPUTS)


Answer = Returned | Raised | CaseResult
"""What came of a call; a `CaseResult` where nothing came back."""


class Caller:
    """Calls candidates' functions, each call in a fresh sandbox."""

    def __init__(self, jail: Jail) -> None:
        self.jail = jail
        self._code = b""
        self._turn = asyncio.Lock()

    async def call(self, source: str, function: str, inputs: bytes, limits: Limits) -> Answer:
        """What a call returned, or how else it ended.

        Args:
            source: the candidate.
            function: its name; `Class.method` is called on an instance made without arguments.
            inputs: what `write_inputs` made of the arguments.
            limits: of the call.

        Raises:
            SandboxError: the sandboxes are broken, not the candidate.
        """
        if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE:
            return CaseResult("load_error", f"longer than {MAX_SOURCE} bytes")
        code = await self._compiled()
        request = encode((source, function, inputs, MAX_REPLY), 2 * MAX_INPUTS)
        result = await self.jail.run(
            ("python3", "-c", _BOOT),
            stdin=len(code).to_bytes(4, "big") + code + request,
            limits=limits,
            reply_bytes=MAX_REPLY,
        )
        if result is None or result.status != "exited":
            return ended_badly(result)
        if len(result.reply or b"") > _LONG:
            return await asyncio.to_thread(read_reply, result)
        return read_reply(result)

    async def _compiled(self) -> bytes:
        """The code that runs inside, made once by the Python that is inside; which shows that there is one."""
        async with self._turn:
            if not self._code:
                texts = [(_HERE / name).read_text(encoding="utf-8") for name in ("values.py", "call.py")]
                result = await self.jail.run(
                    ("python3", "-c", _COMPILE),
                    stdin=repr(texts).encode(),
                    limits=DEFAULT_LIMITS,
                    reply_bytes=1 << 20,
                )
                if result is None or not result.ok or not result.reply:
                    why = result.stderr_text.strip()[-300:] if result else "its sandbox was lost"
                    raise SandboxUnavailable(f"the sandbox has no Python that can call functions: {why}")
                self._code = result.reply
            return self._code


def read_reply(result: ExecResult) -> Answer:
    """What a call returned, by its one reply on descriptor 3."""

    def failed(reason: Reason, detail: str) -> CaseResult:
        return CaseResult(reason, detail[:2000], wall_s=result.wall_s, cpu_s=result.cpu_s)

    if result.exit_code != 0:
        return failed("exit_code", f"exit code {result.exit_code}: {last_line(result)}")
    if result.reply is None:
        return failed("malformed_reply", f"more than {MAX_REPLY} bytes")
    if not result.reply:
        return failed("no_reply", "the process ended before the function returned")
    try:
        tag, items = parse(result.reply)
    except Malformed as error:
        return failed("malformed_reply", str(error))
    texts = [item[1] for item in items[1:]] if tag == "t" else []
    match tag, items:
        case "t", [("s", "value"), value]:
            return Returned(value, result.reply, result.wall_s, result.cpu_s)
        case "t", [("s", "raised"), ("s", "load"), ("s", _), ("s", _)]:
            return failed("load_error", f"{texts[1]}: {texts[2]}")
        case "t", [("s", "raised"), ("s", "call"), ("s", _), ("s", _)]:
            return Raised(texts[1][:100], texts[2][:1000], result.wall_s, result.cpu_s)
        case "t", [("s", "missing"), ("s", _)]:
            return failed("missing_function", texts[0])
        case "t", [("s", "unfit"), ("s", _)]:
            return failed("wrong_answer", texts[0])
    return failed("malformed_reply", "a value that is no reply")
