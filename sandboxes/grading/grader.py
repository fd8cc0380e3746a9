"""One way to grade every kind of task, and the proof that a task is worth being asked."""

from __future__ import annotations

from turngym.sandboxes.grading.asserts import AssertTask, grade_asserts
from turngym.sandboxes.grading.calls import Caller
from turngym.sandboxes.grading.functions import FunctionTask, grade_function
from turngym.sandboxes.grading.jail import Jail
from turngym.sandboxes.grading.programs import ProgramTask, grade_program
from turngym.sandboxes.grading.verdicts import Verdict
from turngym.sandboxes.protocols import Backend

GradedTask = FunctionTask | ProgramTask | AssertTask


class TaskRefused(ValueError):
    """A task whose own solution fails, or that an empty stub solves; the message says why."""


class Grader:
    """Grades candidates against hidden tests.

    Args:
        backend: makes the sandboxes; whoever grades untrusted code has asked it for `UNTRUSTED` before.
        at_once: how many cases run at the same time, over all gradings; default: one for each processor. With
            more than there are processors, cases slow each other down, and their time limits are wall time.
        tries: how often a case is tried whose sandbox is lost.
    """

    def __init__(self, backend: Backend, *, at_once: int | None = None, tries: int = 3) -> None:
        self._caller = Caller(Jail(backend, at_once=at_once, tries=tries))

    async def grade(self, task: GradedTask, candidate: str, *, stop_at_failure: bool = False) -> Verdict:
        """What a candidate's source is worth. A candidate that fails is a verdict, never an exception.

        Raises:
            SandboxError: the sandboxes are broken; nothing is said about the candidate.
            UnsupportedTest: a test in Python cannot be run with the candidate behind walls.
        """
        if isinstance(task, FunctionTask):
            return await grade_function(self._caller, task, candidate, stop_at_failure=stop_at_failure)
        if isinstance(task, ProgramTask):
            return await grade_program(self._caller.jail, task, candidate, stop_at_failure=stop_at_failure)
        return await grade_asserts(self._caller, task, candidate, stop_at_failure=stop_at_failure)

    async def admit(self, task: GradedTask, reference: str, stub: str | None = None) -> Verdict:
        """The verdict on a task's own solution, if the task tells it from a stub that does nothing.

        Args:
            task: the task.
            reference: its solution.
            stub: what must fail; default: a function that returns None, or an empty program.

        Raises:
            TaskRefused: the solution fails, or the stub passes.
            SandboxError, UnsupportedTest: as for `grade`.
        """
        verdict = await self.grade(task, reference)
        if verdict.score != 1.0:
            number, case = next((n, case) for n, case in enumerate(verdict.cases) if not case.passed)
            raise TaskRefused(f"the task's own solution fails case {number}: {case.reason} ({case.detail})")
        if (await self.grade(task, empty_stub(task) if stub is None else stub)).score != 0.0:
            raise TaskRefused("a stub that does nothing passes every case")
        return verdict


def empty_stub(task: GradedTask) -> str:
    """A candidate of the right form that does nothing."""
    if isinstance(task, ProgramTask):
        return ""
    owner, _, name = task.function.rpartition(".")
    if owner:
        return f"class {owner}:\n    def {name}(self, *args, **kwargs):\n        return None\n"
    return f"def {name}(*args, **kwargs):\n    return None\n"
