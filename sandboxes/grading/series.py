"""The cases of one task: some at once, within a time for all of them, and if asked for only to the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from turngym.sandboxes.grading.verdicts import CaseResult, Verdict
from turngym.sandboxes.limits import Limits

RunCase = Callable[[int, Limits], Awaitable[CaseResult]]
"""Runs the case of a number within limits."""


async def run_cases(
    count: int,
    run: RunCase,
    limits: Limits,
    *,
    total_wall_s: float | None = None,
    at_once: int = 1,
    stop_at_failure: bool = False,
) -> Verdict:
    """Run all cases.

    The verdict does not depend on which case happens to end first: the time is added up in the order of the cases,
    and with `stop_at_failure` whatever comes after the first failure counts as not run.
    """
    found: list[CaseResult | None] = [None] * count
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            if stop_at_failure and any(result and not result.passed for result in found):
                return
            mine = limits
            if total_wall_s is not None:
                left_s = total_wall_s - sum(result.wall_s for result in found if result)
                if left_s <= 0:
                    return
                mine = limits.model_copy(update={"wall_s": min(limits.wall_s, max(left_s, 0.001))})
            found[number] = await run(number, mine)

    await _all(work() for _ in range(min(at_once, count)))
    return Verdict(tuple(_in_order(found, total_wall_s, stop_at_failure)))


def _in_order(
    found: list[CaseResult | None], total_wall_s: float | None, stop_at_failure: bool
) -> Iterable[CaseResult]:
    spent_s = 0.0
    failed = False
    for result in found:
        if failed and stop_at_failure:
            yield CaseResult("not_run")
            continue
        spent_s += result.wall_s if result else 0.0
        if result is None:
            result = CaseResult("timeout", "not begun: the time for all cases was used up")
        elif total_wall_s is not None and spent_s > total_wall_s:
            result = replace(result, reason="timeout", detail="the time for all cases was used up")
        failed = failed or not result.passed
        yield result


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Wait for all; the first failure ends the others, and is raised as it is."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
