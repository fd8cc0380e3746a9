"""A programming problem as JSON data: what is asked, tests that are shown, tests that are hidden, a solution."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from turngym.envs.interpreter import shortened
from turngym.sandboxes import Limits
from turngym.sandboxes.grading import (
    AssertTask,
    Case,
    FunctionTask,
    GradedTask,
    ProgramCase,
    ProgramTask,
    Rules,
    Verdict,
)

_JSON_RULES = Rules(
    numeric=True, sequences=True
)  # what came through JSON knows no tuples, and 1.0 may be written 1
_SHOWN = 400


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FunctionTests(_Record):
    """Calls of a function and what they return."""

    form: Literal["function"] = "function"
    name: str
    """Of the function; `Class.method` for a method."""
    cases: tuple[tuple[tuple[Any, ...], Any], ...] = Field(min_length=1)
    """Arguments and the expected value, as JSON."""

    def graded(self, limits: Limits, total_s: float) -> GradedTask:
        """The tests as a grader takes them."""
        cases = tuple(Case(args, expected=expected) for args, expected in self.cases)
        return FunctionTask(self.name, cases, rules=_JSON_RULES, limits=limits, total_wall_s=total_s)

    def shown(self, number: int) -> str:
        """One test, for the agent."""
        args, expected = self.cases[number]
        called = f"{self.name.rpartition('.')[2]}({', '.join(map(repr, args))})"
        return f"{shortened(called, _SHOWN)} should return {shortened(repr(expected), _SHOWN)}"

    @property
    def size(self) -> int:
        """How many tests there are."""
        return len(self.cases)


class ProgramTests(_Record):
    """What a program reads and what it prints."""

    form: Literal["program"] = "program"
    cases: tuple[tuple[str, str], ...] = Field(min_length=1)
    """Standard input and output."""
    compare: Literal["lines", "words"] = "lines"
    """How outputs are compared (see `sandboxes/grading/programs.py`)."""

    def graded(self, limits: Limits, total_s: float) -> GradedTask:
        """The tests as a grader takes them."""
        cases = tuple(ProgramCase(read.encode(), printed.encode()) for read, printed in self.cases)
        return ProgramTask(cases, compare=self.compare, limits=limits, total_wall_s=total_s)

    def shown(self, number: int) -> str:
        """One test, for the agent."""
        read, printed = self.cases[number]
        return f"for the input {shortened(read, _SHOWN)!r} it should print {shortened(printed, _SHOWN)!r}"

    @property
    def size(self) -> int:
        """How many tests there are."""
        return len(self.cases)


class AssertTests(_Record):
    """Python code that calls the function and asserts."""

    form: Literal["asserts"] = "asserts"
    name: str
    """Of the function; the tests call it by that name or as `candidate`."""
    tests: tuple[str, ...] = Field(min_length=1)
    setup: str = ""
    """Runs before each test."""

    def graded(self, limits: Limits, total_s: float) -> GradedTask:
        """The tests as a grader takes them."""
        return AssertTask(self.name, self.tests, setup=self.setup, limits=limits, total_wall_s=total_s)

    def shown(self, number: int) -> str:
        """One test, for the agent."""
        return shortened(self.tests[number].strip(), 2 * _SHOWN)

    @property
    def size(self) -> int:
        """How many tests there are."""
        return len(self.tests)


Tests = Annotated[FunctionTests | ProgramTests | AssertTests, Field(discriminator="form")]


class Problem(_Record):
    """One problem."""

    id: str
    statement: str
    """What the agent is told, without how to hand its code in."""
    public: Tests | None = None
    """Tests whose outcome the agent is told; None if there are none."""
    hidden: Tests
    """Tests that decide."""
    solution: str | None = None
    """A program that passes all of them, where there is one."""
    prefix: str = ""
    """Code that stands before every submission: imports and helpers that the statement gives."""
    tags: tuple[str, ...] = ()


def feedback(tests: FunctionTests | ProgramTests | AssertTests, verdict: Verdict, most: int = 3) -> str:
    """What the agent is told of the public tests that it failed."""
    failed = [number for number, case in enumerate(verdict.cases) if not case.passed]
    lines = [f"{verdict.passed} of {verdict.total} tests pass."]
    for number in failed[:most]:
        case = verdict.cases[number]
        what = case.reason.replace("_", " ") + (f": {shortened(case.detail, _SHOWN)}" if case.detail else "")
        lines.append(f"- {tests.shown(number)}\n  {what}")
    if len(failed) > most:
        lines.append(f"- and {len(failed) - most} more")
    return "\n".join(lines)
