"""Tasks "write the function f": hidden cases of arguments and expected values.

The arguments of one case enter one fresh sandbox, where the function is called; a value comes back and is compared
here. The expected value never leaves this process, and so no candidate can find it, nor say "passed".

Why a fresh sandbox for each case, not only a fresh process: what a case leaves (files, a full disk, a counter of
how often it ran) then means nothing to the next, and cases can run at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turngym.sandboxes.grading.calls import Answer, Caller, Raised, Returned, write_inputs
from turngym.sandboxes.grading.compare import EXACT, Rules, is_same, show
from turngym.sandboxes.grading.series import run_cases
from turngym.sandboxes.grading.values import Malformed, Node, Unfit, encode, has_opaque, parse
from turngym.sandboxes.grading.verdicts import CaseResult, Verdict
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits


@dataclass(frozen=True, slots=True)
class Case:
    """One hidden case."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None


@dataclass(frozen=True, slots=True)
class FunctionTask:
    """A function and its hidden cases, of plain values (see `values`).

    Raises:
        ValueError: there are no cases, or one holds something that is no plain value.
    """

    function: str
    """Its name; `Class.method` is called on an instance made without arguments."""
    cases: tuple[Case, ...]
    rules: Rules = EXACT
    limits: Limits = DEFAULT_LIMITS
    """Of each case."""
    total_wall_s: float | None = None
    """Of all cases together."""
    inputs: tuple[bytes, ...] = field(init=False, repr=False, compare=False)
    """The arguments, as they enter a sandbox."""
    expected: tuple[Node, ...] = field(init=False, repr=False, compare=False)
    """The expected values, as they are compared."""

    def __post_init__(self) -> None:
        if not self.cases:
            raise ValueError(f"the task {self.function!r} has no cases")
        inputs, nodes = [], []
        for number, case in enumerate(self.cases):
            try:
                inputs.append(write_inputs(case.args, case.kwargs))
                nodes.append(parse(encode(case.expected)))
            except (Unfit, Malformed) as error:
                raise ValueError(f"case {number} of {self.function!r}: {error}") from None
            if has_opaque(parse(inputs[-1])) or has_opaque(nodes[-1]):
                raise ValueError(f"case {number} of {self.function!r} holds something that is no plain value")
        object.__setattr__(self, "inputs", tuple(inputs))
        object.__setattr__(self, "expected", tuple(nodes))


async def grade_function(
    caller: Caller, task: FunctionTask, source: str, *, stop_at_failure: bool = False
) -> Verdict:
    """Call the candidate's function for each case, and compare what comes back."""

    async def run(number: int, limits: Limits) -> CaseResult:
        answer = await caller.call(source, task.function, task.inputs[number], limits)
        return judge(answer, task.expected[number], task.rules)

    return await run_cases(
        len(task.cases),
        run,
        task.limits,
        total_wall_s=task.total_wall_s,
        at_once=caller.jail.at_once,
        stop_at_failure=stop_at_failure,
    )


def judge(answer: Answer, expected: Node, rules: Rules) -> CaseResult:
    """How a case ended whose call gave this answer."""
    if isinstance(answer, Raised):
        return answer.result
    if not isinstance(answer, Returned):
        return answer
    if is_same(expected, answer.value, rules):
        return CaseResult("passed", "", answer.wall_s, answer.cpu_s)
    return CaseResult("wrong_answer", f"returned {show(answer.value)}", answer.wall_s, answer.cpu_s)
