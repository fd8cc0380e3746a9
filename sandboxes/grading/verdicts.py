"""What grading says: which cases passed, why the others did not, and the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal[
    "passed",
    "wrong_answer",
    "exception",
    "load_error",
    "missing_function",
    "exit_code",
    "no_reply",
    "malformed_reply",
    "signalled",
    "timeout",
    "oom",
    "output_limit",
    "sandbox_lost",
    "not_run",
]
"""How a case ended. `sandbox_lost`: the candidate ended its sandbox each time that it was tried, while a harmless
program lived in one like it. `not_run`: an earlier case had failed, and no more were asked for."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended."""

    reason: Reason
    detail: str = ""
    """For people. It may hold the candidate's own words, and never holds the expected value."""
    wall_s: float = 0.0
    """By the sandbox's clock, from the start of the program to its end."""
    cpu_s: float = 0.0

    @property
    def passed(self) -> bool:
        """True if the answer was right, and came within the limits."""
        return self.reason == "passed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """How all cases of a task ended, in their order."""

    cases: tuple[CaseResult, ...]

    def __post_init__(self) -> None:
        if not self.cases:
            raise ValueError("a verdict needs at least one case: nothing shown is nothing passed")

    @property
    def passed(self) -> int:
        """How many cases passed."""
        return sum(case.passed for case in self.cases)

    @property
    def total(self) -> int:
        """How many cases there are."""
        return len(self.cases)

    @property
    def score(self) -> float:
        """1.0 if all cases passed, else 0.0."""
        return 1.0 if self.passed == self.total else 0.0

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why each case ended as it did."""
        return tuple(case.reason for case in self.cases)
