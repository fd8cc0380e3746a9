"""Verdicts that cannot be forged: candidates run in sandboxes, and what they return is judged here."""

from turngym.sandboxes.grading.asserts import AssertTask, UnsupportedTest
from turngym.sandboxes.grading.compare import EXACT, Rules
from turngym.sandboxes.grading.functions import Case, FunctionTask
from turngym.sandboxes.grading.grader import GradedTask, Grader, TaskRefused
from turngym.sandboxes.grading.programs import ProgramCase, ProgramTask
from turngym.sandboxes.grading.verdicts import CaseResult, Reason, Verdict

__all__ = [
    "EXACT",
    "AssertTask",
    "Case",
    "CaseResult",
    "FunctionTask",
    "GradedTask",
    "Grader",
    "ProgramCase",
    "ProgramTask",
    "Reason",
    "Rules",
    "TaskRefused",
    "UnsupportedTest",
    "Verdict",
]
