"""Who is to blame for a lost sandbox, with sandboxes that are lost by plan."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from turngym.sandboxes.errors import SandboxBusy, SandboxError, SandboxLost, SandboxUnavailable
from turngym.sandboxes.grading import Case, FunctionTask, Grader, ProgramCase, ProgramTask
from turngym.sandboxes.grading.jail import Jail
from turngym.sandboxes.grading.series import run_cases
from turngym.sandboxes.grading.verdicts import CaseResult
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.results import ExecResult

DONE = ExecResult("exited", 0, None, b"", b"", False, False, 0.1, 0.1, 1.0, reply=b"alive")


class Plan:
    """A backend whose sandboxes do what a list says, one entry for each; an exception is raised."""

    name = "plan"

    def __init__(self, *made: Exception | None, harmless: Exception | None = None) -> None:
        self.made = list(made)
        self.harmless = harmless
        self.open = self.most = self.count = 0

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> Any:
        self.count += 1
        if self.made and isinstance(self.made[0], (SandboxUnavailable, SandboxBusy)):
            raise self.made.pop(0)  # type: ignore[misc]
        return PlannedSandbox(self)


class PlannedSandbox:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    async def __aenter__(self) -> PlannedSandbox:
        self.plan.open += 1
        self.plan.most = max(self.plan.most, self.plan.open)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.plan.open -= 1

    async def exec(self, argv: Any, **_: Any) -> ExecResult:
        await asyncio.sleep(0.001)
        error = (
            self.plan.harmless if "alive" in argv[-1] else self.plan.made.pop(0) if self.plan.made else None
        )
        if error is not None:
            raise error
        return DONE


async def run(plan: Plan, **options: Any) -> ExecResult | None:
    return await Jail(plan, **options).run(["program"], stdin=b"", limits=DEFAULT_LIMITS)  # type: ignore[arg-type]


LOST = SandboxLost("lost")


async def test_a_lost_sandbox_is_tried_again() -> None:
    plan = Plan(LOST, LOST, None)
    assert await run(plan) is DONE
    assert (plan.count, plan.open) == (3, 0)


async def test_a_program_that_ends_each_of_its_sandboxes_is_to_blame() -> None:
    plan = Plan(LOST, SandboxError("what"), LOST, None)
    assert await run(plan) is None
    assert (plan.count, plan.open) == (4, 0)


async def test_where_harmless_programs_are_lost_too_nobody_is_scored() -> None:
    plan = Plan(LOST, LOST, LOST, harmless=LOST)
    with pytest.raises(SandboxLost):
        await run(plan)
    assert plan.open == 0


@pytest.mark.parametrize(("error", "tries"), [(SandboxUnavailable("none"), 3), (SandboxBusy("later"), 1)])
async def test_no_sandbox_is_no_score(error: SandboxError, tries: int) -> None:
    plan = Plan(error, error, error, None)
    with pytest.raises(type(error)):
        await run(plan)
    assert plan.count == tries


async def test_a_sandbox_that_could_not_be_made_is_tried_again() -> None:
    plan = Plan(SandboxUnavailable("none"), SandboxUnavailable("none"), None)
    assert await run(plan) is DONE


async def test_a_sandbox_without_python_is_no_score() -> None:
    class Bare(Plan):
        async def create(self, limits: Limits = DEFAULT_LIMITS) -> Any:
            sandbox = PlannedSandbox(self)

            async def exec(argv: Any, **_: Any) -> ExecResult:
                return replace(DONE, exit_code=127, stderr=b"cannot run python3", reply=b"")

            sandbox.exec = exec  # type: ignore[method-assign]
            return sandbox

    for task in (FunctionTask("f", (Case(),)), ProgramTask((ProgramCase(b"", b""),))):
        with pytest.raises(SandboxUnavailable, match="cannot run python3"):
            await Grader(Bare()).grade(task, "")  # type: ignore[arg-type]


async def test_the_number_at_once_is_bounded() -> None:
    plan = Plan()
    jail = Jail(plan, at_once=3)  # type: ignore[arg-type]
    await asyncio.gather(*(jail.run(["p"], stdin=b"", limits=DEFAULT_LIMITS) for _ in range(20)))
    assert plan.most == 3


def test_numbers_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Jail(Plan(), at_once=-1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1"):
        Jail(Plan(), tries=0)  # type: ignore[arg-type]


async def test_an_error_in_one_case_ends_the_series_as_it_is() -> None:
    ended: list[int] = []

    async def case(number: int, _: Limits) -> CaseResult:
        if number == 1:
            raise LOST
        try:
            await asyncio.sleep(10)
        finally:
            ended.append(number)
        return CaseResult("passed")

    with pytest.raises(SandboxLost):
        await run_cases(5, case, DEFAULT_LIMITS, at_once=2)
    assert ended == [0]


async def test_the_verdict_does_not_depend_on_which_case_ends_first() -> None:
    async def case(number: int, _: Limits) -> CaseResult:
        await asyncio.sleep(0.02 if number == 0 else 0)
        return CaseResult("passed" if number in (1, 2) else "wrong_answer", wall_s=0.1)

    verdict = await run_cases(6, case, DEFAULT_LIMITS, at_once=3, stop_at_failure=True)
    assert verdict.reasons == ("wrong_answer", *("not_run",) * 5)


async def test_time_is_added_up_in_the_order_of_the_cases() -> None:
    given: list[float] = []

    async def case(number: int, limits: Limits) -> CaseResult:
        given.append(limits.wall_s)
        return CaseResult("passed", wall_s=1.0)

    verdict = await run_cases(5, case, Limits(wall_s=2), total_wall_s=2.5)
    assert verdict.reasons == ("passed", "passed", "timeout", "timeout", "timeout")
    assert given == [2, 1.5, 0.5]
