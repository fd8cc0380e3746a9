"""Tasks "write a program": hidden cases of standard input and the output that is expected.

The program and one case's input enter a fresh sandbox; its output is compared here. It must also end with exit code
0: a right answer followed by a crash is a program that crashes.

How output is compared (`compare`):

- `exact`: byte for byte.
- `lines`: lines without blanks at either end, blank lines before and after everything ignored. With a tolerance, two
  lines are also the same if their words are (see below). LiveCodeBench does this.
- `words`: the words between blanks, wherever the lines break. APPS does this, among others.

With a tolerance, two words are the same if both are plain decimal numbers and close; two integers must still be equal.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from turngym.sandboxes.grading.compare import EXACT, Rules, is_close
from turngym.sandboxes.grading.jail import MAX_SOURCE, Jail, ended_badly, last_line
from turngym.sandboxes.grading.series import run_cases
from turngym.sandboxes.grading.verdicts import CaseResult, Verdict
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits

Compare = Literal["exact", "lines", "words"]

_FILE: Final = "main.py"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_MAX_NUMBER: Final = 400
"""Characters of the longest word that is read as a number."""


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """One hidden case."""

    stdin: bytes
    stdout: bytes


@dataclass(frozen=True, slots=True)
class ProgramTask:
    """A Python program and its hidden cases.

    Raises:
        ValueError: there are no cases; or the tolerance is of no use or no number.
    """

    cases: tuple[ProgramCase, ...]
    compare: Compare = "lines"
    rules: Rules = EXACT
    """The tolerance of numbers."""
    limits: Limits = DEFAULT_LIMITS
    """Of each case."""
    total_wall_s: float | None = None
    """Of all cases together."""

    def __post_init__(self) -> None:
        if not self.cases:
            raise ValueError("the task has no cases")
        if self.rules.is_tolerant and self.compare == "exact":
            raise ValueError("an exact comparison has no tolerance: compare lines or words")


async def grade_program(
    jail: Jail, task: ProgramTask, source: str, *, stop_at_failure: bool = False
) -> Verdict:
    """Run the candidate for each case, and compare what it prints."""

    async def run(number: int, limits: Limits) -> CaseResult:
        case = task.cases[number]
        text = source.encode("utf-8", "surrogatepass")
        if len(text) > MAX_SOURCE:
            return CaseResult("load_error", f"longer than {MAX_SOURCE} bytes")
        result = await jail.run(("python3", _FILE), stdin=case.stdin, limits=limits, files={_FILE: text})
        if result is None or result.status != "exited":
            return ended_badly(result)
        used = {"wall_s": result.wall_s, "cpu_s": result.cpu_s}
        if result.exit_code != 0:
            return CaseResult("exit_code", f"exit code {result.exit_code}: {last_line(result)}", **used)
        if is_same_output(case.stdout, result.stdout, task.compare, task.rules):
            return CaseResult("passed", "", **used)
        return CaseResult("wrong_answer", f"printed {result.stdout[:200]!r}", **used)

    await jail.require_python()
    return await run_cases(
        len(task.cases),
        run,
        task.limits,
        total_wall_s=task.total_wall_s,
        at_once=jail.at_once,
        stop_at_failure=stop_at_failure,
    )


def is_same_output(expected: bytes, actual: bytes, compare: Compare = "lines", rules: Rules = EXACT) -> bool:
    """True if a program printed what was expected."""
    if compare == "exact" or expected == actual:
        return expected == actual
    try:
        want, got = expected.decode("utf-8"), actual.decode("utf-8")
    except UnicodeDecodeError:
        return False
    if compare == "words":
        return _same_words(want, got, rules)
    wanted, found = _lines(want), _lines(got)
    return len(wanted) == len(found) and all(
        w == g or (rules.is_tolerant and _same_words(w, g, rules)) for w, g in zip(wanted, found, strict=True)
    )


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().split("\n")]


def _same_words(want: str, got: str, rules: Rules) -> bool:
    wanted, found = want.split(), got.split()
    return len(wanted) == len(found) and all(
        _same_word(w, g, rules) for w, g in zip(wanted, found, strict=True)
    )


def _same_word(want: str, got: str, rules: Rules) -> bool:
    if want == got:
        return True
    if not rules.is_tolerant or max(len(want), len(got)) > _MAX_NUMBER:
        return False
    if _INTEGER.fullmatch(want) and _INTEGER.fullmatch(got):
        return int(want) == int(got)
    if not (_DECIMAL.fullmatch(want) and _DECIMAL.fullmatch(got)):
        return False
    wanted, found = float(want), float(got)
    return math.isfinite(wanted) and is_close(
        wanted, found, rules
    )  # two words beyond every float are not the same
