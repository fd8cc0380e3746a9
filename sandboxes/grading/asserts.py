"""Tasks whose tests are Python code with asserts (HumanEval's `check(candidate)`, MBPP's list of asserts).

A test is trusted: it runs in a session of a sandbox of its own, without model code, and its `candidate` is a call
into another, fresh sandbox (see `calls`). Nothing that the candidate writes runs where the asserts are.

What such a test cannot do, and is refused for instead of being scored: pass functions or objects as arguments, use
names that only the candidate defines, never call the candidate. What it cannot see: changes to its arguments, and state
that the candidate keeps from call to call; `admit` finds tasks that need them, since their own solution then fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from turngym.sandboxes.errors import SandboxBusy, SandboxError, SessionLost
from turngym.sandboxes.grading.calls import Caller, Raised
from turngym.sandboxes.grading.compare import show
from turngym.sandboxes.grading.series import run_cases
from turngym.sandboxes.grading.values import encode, has_opaque, parse
from turngym.sandboxes.grading.verdicts import CaseResult, Reason, Verdict
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.protocols import Sandbox, Session

_HERE: Final = Path(__file__).parent
_CPU_S: Final = 86400.0
_MAX_CALLS: Final = 10_000
_MAX_MESSAGE: Final = 1 << 27


class UnsupportedTest(ValueError):
    """A test that cannot be run with the candidate behind walls; its task is no task of this kind."""


@dataclass(frozen=True, slots=True)
class AssertTask:
    """A function and tests in Python.

    Raises:
        ValueError: there are no tests.
    """

    function: str
    """Name of the function; tests call it by that name or as `candidate`."""
    tests: tuple[str, ...]
    """Each is a case. For HumanEval: one, the test's source and then `check(candidate)`."""
    setup: str = ""
    """Trusted code that runs before each test, such as imports."""
    limits: Limits = DEFAULT_LIMITS
    """Of each call of the candidate, and of each stretch of the test between two calls."""
    total_wall_s: float | None = None
    """Of all tests together."""

    def __post_init__(self) -> None:
        if not self.tests:
            raise ValueError(f"the task {self.function!r} has no tests")


async def grade_asserts(
    caller: Caller, task: AssertTask, source: str, *, stop_at_failure: bool = False
) -> Verdict:
    """Run each test against the candidate.

    Raises:
        UnsupportedTest: a test cannot be run this way.
        SandboxError: the sandboxes are broken.
    """

    async def run(number: int, limits: Limits) -> CaseResult:
        return await _run_test(caller, task, number, source, limits)

    return await run_cases(
        len(task.tests),
        run,
        task.limits,
        total_wall_s=task.total_wall_s,
        at_once=caller.jail.at_once,
        stop_at_failure=stop_at_failure,
    )


async def _run_test(caller: Caller, task: AssertTask, number: int, source: str, limits: Limits) -> CaseResult:
    for attempt in range(caller.jail.tries):
        relay = _Relay(caller, task, number, source, limits)
        try:
            return await relay.run()
        except SandboxBusy:
            raise
        except SandboxError as error:
            if attempt + 1 == caller.jail.tries:
                if isinstance(error, SessionLost) and not relay.calls:
                    raise UnsupportedTest(
                        f"test {number} of {task.function!r} ends its interpreter"
                    ) from error
                if relay.calls and not relay.is_calling and await caller.jail.is_sound():
                    return relay.end(
                        "sandbox_lost", "the test's own sandbox ended at what the candidate gave it"
                    )
                raise
    raise AssertionError("unreachable: tries is at least 1")


class _Relay:
    """One test, once: calls go out of its sandbox, and what came of them goes in."""

    def __init__(self, caller: Caller, task: AssertTask, number: int, source: str, limits: Limits) -> None:
        self.caller = caller
        self.task = task
        self.number = number
        self.source = source
        self.limits = limits
        self.calls = 0
        self.is_calling = False
        """True while the candidate's sandbox is at work, not the test's."""
        self.wall_s = 0.0
        self.cpu_s = 0.0

    async def run(self) -> CaseResult:
        """The test from its first line to its end."""
        jail = self.caller.jail
        # One process runs the whole test: its processor time adds up, and each stretch is bounded by wall time.
        limits = self.limits.model_copy(update={"cpu_s": _CPU_S})
        async with jail.trusted_room, await jail.backend.create(limits) as sandbox:
            session = await sandbox.session()
            for name in ("values.py", "relay.py"):
                await self._step(session, (_HERE / name).read_text(encoding="utf-8"))
            step = f"start({self.task.setup!r}, {self.task.tests[self.number]!r}, {self.task.function!r})"
            while True:
                if not await self._step(session, step):
                    if not self.calls:
                        self._refuse("it does not end")
                    return self.end("timeout", "the test was stopped at what it was given")
                kind, content = await self._message(sandbox)
                if kind != "call":
                    return self._ended(kind, content)
                answer = await self._call(content)
                if isinstance(answer, CaseResult):
                    return self.end(answer.reason, answer.detail)
                step = f"proceed({answer!r})"

    def end(self, reason: Reason, detail: str) -> CaseResult:
        """The case's result, with what was used."""
        return CaseResult(reason, detail, self.wall_s, self.cpu_s)

    async def _step(self, session: Session, code: str) -> bool:
        """Run a piece of the relay's code; False if its time was up."""
        result = await session.run(code)
        self.wall_s += result.wall_s
        if result.status == "error":
            raise SandboxError(f"the trusted side of a test failed: {result.stderr_text[-500:]}")
        return result.status == "ok"

    async def _message(self, sandbox: Sandbox) -> tuple[str, Any]:
        _, items = parse(await sandbox.read_file("message", max_bytes=_MAX_MESSAGE))
        return items[0][1], items[1][1] if len(items) > 1 else ""

    async def _call(self, inputs: bytes) -> bytes | CaseResult:
        """What the candidate's answer is to the test, or how the case ends with it."""
        if has_opaque(parse(inputs)):
            self._refuse(f"it gives the candidate what is no plain value: {show(parse(inputs))}")
        self.calls += 1
        if self.calls > _MAX_CALLS:
            self._refuse(f"it calls the candidate more than {_MAX_CALLS} times")
        if self.task.total_wall_s is not None and self.wall_s > self.task.total_wall_s:
            return CaseResult("timeout", "the time for all tests was used up")
        self.is_calling = True
        answer = await self.caller.call(self.source, self.task.function, inputs, self.limits)
        self.is_calling = False
        self.wall_s += answer.wall_s
        self.cpu_s += answer.cpu_s
        if isinstance(answer, CaseResult):
            return answer
        if isinstance(answer, Raised):
            return encode(("raised", answer.kind, answer.message))
        if has_opaque(answer.value):
            return CaseResult("wrong_answer", f"returned {show(answer.value)}")
        return answer.reply

    def _ended(self, kind: str, text: str) -> CaseResult:
        if kind == "broken":
            self._refuse(text)
        if kind == "failed":
            return self.end("wrong_answer", text)
        if not self.calls:
            self._refuse("it never calls the candidate")
        return self.end("passed", "")

    def _refuse(self, why: str) -> NoReturn:
        raise UnsupportedTest(f"test {self.number} of {self.task.function!r} cannot be run: {why}")
