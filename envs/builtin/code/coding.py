"""Coding: hand code in, see which public tests fail, improve it; hidden tests pay at the end.

What HumanEval and CodeTests have in common.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Final, Literal

import numpy as np
from pydantic import TypeAdapter

from turngym.envs.builtin.code.problem import (
    AssertTests,
    FunctionTests,
    Problem,
    ProgramTests,
    Tests,
    feedback,
)
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.errors import GradingError
from turngym.envs.messages import Message, assistant, user
from turngym.envs.tasks import Task, TaskSet
from turngym.sandboxes import Limits
from turngym.sandboxes.grading import UnsupportedTest, Verdict
from turngym.sandboxes.opening import DEFAULT
from turngym.sandboxes.service import sandbox_service

LIMITS: Final = Limits(memory_mib=512, processes=16, disk_mib=16, wall_s=5.0, cpu_s=5.0)
"""Of each test."""
TOTAL_S: Final = 60.0
"""Of all tests of a submission together."""
HOW: Final = "Answer with your code in one block:\n```python\n...\n```"
_FENCE: Final = re.compile(r"^ {0,3}```[ \t]*(\w*)[ \t]*$")
_TESTS: TypeAdapter[FunctionTests | ProgramTests | AssertTests] = TypeAdapter(Tests)


def code_of(text: str) -> tuple[str | None, str]:
    """The code in a message's only fenced block; or None and what is wrong.

    A block begins with a line of three backquotes, perhaps with the name of a language, and ends with a line of three
    backquotes.
    """
    blocks: list[list[str]] = []
    inside = False
    for line in text.split("\n"):
        fence = _FENCE.match(line.rstrip("\r"))
        if fence and not inside:
            blocks.append([])
            inside = True
        elif fence and not fence[1]:
            inside = False
        elif inside:
            blocks[-1].append(line)
    if inside:
        return None, "Your code block has no end. " + HOW
    if len(blocks) != 1:
        return None, f"There are {len(blocks)} code blocks in your message. " + HOW
    return "\n".join(blocks[0]) + "\n", ""


def expert(task: Task, _history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """The reference solution."""
    return assistant(f"```python\n{task.target['solution']}\n```")


def random_submission(task: Task, _history: Sequence[Message], rng: np.random.Generator) -> Message:
    """The reference solution, whole or with a line or an operator changed; other code; no code."""
    code: str = task.target["solution"] or "print(1)"
    draw = rng.random()
    if draw < 0.2:
        return assistant(
            str(rng.choice(["", "I give up.", "```python\nprint(1)", "```\na\n```\n```\nb\n```"]))
        )
    if draw < 0.4:
        return assistant(
            f"```python\n{rng.choice(['x = (', 'import os; os._exit(0)', 'print(input())', 'while 1: 1/0'])}\n```"
        )
    lines = code.split("\n")
    if draw < 0.9:
        place = int(rng.integers(len(lines)))
        lines[place] = lines[place].replace("+", "-") if rng.random() < 0.5 else ""
    return assistant("```python\n" + "\n".join(lines) + "\n```")


def task_of(problem: Problem) -> Task:
    """A problem as a task: hidden tests and solution are its target."""
    return Task(
        id=problem.id,
        prompt=(user(f"{problem.statement}\n\n{HOW}"),),
        target={"tests": problem.hidden.model_dump(mode="json"), "solution": problem.solution},
        metadata={
            "public": problem.public.model_dump(mode="json") if problem.public is not None else None,
            "prefix": problem.prefix,
        },
        tags=problem.tags,
    )


class Coding(Env):
    """Hand code in, see which public tests fail, improve it.

    Each message hands in the code of its one block. The episode ends when all public tests pass (at once, where there
    are none) or with the last message; then the hidden tests judge the code that was handed in last. Before that,
    nothing of the hidden tests is seen or run. Code runs in sandboxes only, each test in one of its own.

    Metrics: `success`, `submissions` (blocks that were handed in), `public` (share of public tests that the last one
    passed, where there are any).

    Args:
        tasks: problems, made by `task_of`.
        max_turns: a rule: the most messages.
        pay: "all" pays 1 if every hidden test passes; "share" pays the share that passes. A share rewards code that
            answers the easy cases by heart, so it is no measure of success.
        sandbox: the backend's name.
        limits: of each test.
        allow_weaker: accept a backend that does not hold untrusted code in.
        split: which tasks.
    """

    kind: ClassVar[str] = "code"
    reward_range = (0.0, 1.0)
    answer_formats = (r"(?:.*\n)?```\w*\n(?P<answer>.*)\n```(?:\n.*)?",)
    policies: ClassVar = {"expert": expert, "random": random_submission}

    def __init__(
        self,
        *,
        tasks: TaskSet,
        max_turns: int = 3,
        pay: Literal["all", "share"] = "all",
        sandbox: str = DEFAULT,
        limits: Limits = LIMITS,
        allow_weaker: bool = False,
        split: str | None = None,
    ) -> None:
        if max_turns < 1 or pay not in ("all", "share"):
            raise ValueError(f"expected max_turns ≥ 1 and pay all or share, got {max_turns} and {pay!r}")
        super().__init__(tasks=tasks, split=split)
        self.max_turns = max_turns
        self._pay = pay
        self._sandbox = (sandbox, allow_weaker)
        self._limits = limits

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Nothing is handed in yet."""
        self._code: str | None = None
        self._turns = self._submissions = 0
        self._public_share: float | None = None
        return super().reset(seed=seed, options=options)

    async def astep(self, action: Message) -> StepResult:
        """Try the code of a message on the public tests; at the end, on the hidden ones."""
        self._turns += 1
        code, said = code_of(action.text)
        is_done = False
        if code is not None:
            self._code = code
            self._submissions += 1
            is_done, said = await self._try_public(code)
        if is_done or self._turns == self.max_turns:
            return await self._end(said)
        return (user(said),), 0.0, False, False, {}

    async def _try_public(self, code: str) -> tuple[bool, str]:
        """Whether all public tests pass, and what to say."""
        described = self.task.metadata["public"]
        if described is None:
            return True, ""
        tests = _TESTS.validate_python(described)
        verdict = await self._verdict(tests, code, stop_at_failure=False)
        self._public_share = verdict.passed / verdict.total
        return verdict.score == 1.0, feedback(tests, verdict)

    async def _end(self, said: str) -> StepResult:
        paid = success = 0.0
        if self._code is not None:
            tests = _TESTS.validate_python(self.task.target["tests"])
            verdict = await self._verdict(tests, self._code, stop_at_failure=self._pay == "all")
            success = verdict.score
            paid = success if self._pay == "all" else verdict.passed / verdict.total
        metrics = {"success": success, "submissions": float(self._submissions)}
        if self._public_share is not None:
            metrics["public"] = self._public_share
        observation = (user(said),) if said else ()
        return observation, paid, True, False, {"reward_components": {"hidden": paid}, "metrics": metrics}

    async def _verdict(
        self, tests: FunctionTests | ProgramTests | AssertTests, code: str, *, stop_at_failure: bool
    ) -> Verdict:
        spec, allow_weaker = self._sandbox
        source = f"{self.task.metadata['prefix']}\n\n{code}".encode("utf-8", "replace").decode("utf-8")
        try:
            return await sandbox_service(spec, allow_weaker=allow_weaker).grade(
                tests.graded(self._limits, TOTAL_S), source, stop_at_failure=stop_at_failure
            )
        except UnsupportedTest as error:
            raise GradingError(f"the tests of task {self.task.id} cannot be run: {error}") from error
