"""PythonTool: answer a question that needs computing, with a Python interpreter as the tool."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from turngym.envs.builtin.code.questions import KINDS, picker
from turngym.envs.env import ResetResult, StepResult
from turngym.envs.interpreter import LIMITS, Interpreter
from turngym.envs.messages import Message, ToolCall, assistant, user
from turngym.envs.rewards import reward
from turngym.envs.tasks import GeneratedTasks, Task
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import tool
from turngym.sandboxes import Limits
from turngym.sandboxes.opening import DEFAULT

_ANSWER = re.compile(r"(?:The answer is )?(-?[0-9]{1,300})\.?")

_LINES = (
    "x = 7", "print(x)", "1/0", "import os; os.listdir('.')", "for i in range(3): print(i)", "def f(:", "x + 1",
    "raise SystemExit(3)", "input()", "'ü' * 5",
)  # fmt: skip


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Run a program that prints the answer, and say what it printed."""
    if history[-1].role != "tool":
        return assistant(None, ToolCall.of("python", {"code": task.metadata["program"]}))
    return assistant(f"The answer is {history[-1].text.strip()}.")


def random_code(task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Lines of Python that mean little, calls that are wrong, and guesses."""
    if rng.random() < 0.3:
        return assistant(
            str(rng.choice([str(rng.integers(-9, 10**6)), "I do not know.", "", "The answer is 12 or 13."]))
        )
    lines = [*_LINES, task.metadata["program"]]
    code = "\n".join(str(rng.choice(lines)) for _ in range(int(rng.integers(1, 4))))
    arguments: Any = {"code": code} if rng.random() < 0.9 else '{"code": 3}'
    return assistant(None, ToolCall.of("python", arguments, id=f"call_{len(history)}"))


class PythonTool(ToolEnv):
    """Answer a question that needs computing, with a Python interpreter.

    The interpreter remembers its variables from call to call. The final message must be the integer alone, or "The
    answer is 52." with or without its full stop. The reward is 1 for the right integer and 0 otherwise, at the end.

    Args:
        kinds: which kinds of questions; default: all (see `questions.KINDS`).
        max_turns: a rule: the episode ends after so many messages.
        sandbox: the backend's name.
        limits: of the interpreter and of each call.
        allow_weaker: accept a backend that does not hold untrusted code in.
        split: "train" (endless) or "test" (10,000 questions, none of which is in train).

    Raises:
        ValueError: a kind that there is not.
    """

    kind: ClassVar[str] = "code"
    system_prompt = "Use the Python tool. Then give only the number."
    answer_formats = (r"The answer is (?P<answer>-?[0-9]{1,300})\.?",)
    policies: ClassVar = {"expert": expert, "random": random_code}

    def __init__(
        self,
        *,
        kinds: Iterable[str] = tuple(KINDS),
        max_turns: int = 8,
        sandbox: str = DEFAULT,
        limits: Limits = LIMITS,
        allow_weaker: bool = False,
        split: str | None = None,
        **kwargs: Any,
    ) -> None:
        kinds = tuple(kinds)
        if not kinds or not set(kinds) <= set(KINDS):
            raise ValueError(f"kinds are some of {', '.join(KINDS)}, not {', '.join(kinds)}")
        generate = functools.partial(random_question, kinds=kinds)
        tasks = GeneratedTasks(
            f"python-tool-{'-'.join(kinds)}", generate, sizes={"train": None, "test": 10_000}
        )
        super().__init__(tasks=tasks, split=split, max_turns=max_turns, **kwargs)
        self._new_interpreter = functools.partial(
            Interpreter, sandbox, limits=limits, allow_weaker=allow_weaker
        )
        self._interpreter = self._new_interpreter()

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """A fresh interpreter, which starts when it is first used."""
        await self._interpreter.aclose()
        self._interpreter = self._new_interpreter()
        return await super().areset(seed=seed, options=options)

    async def astep(self, action: Message) -> StepResult:
        """Answer calls, or grade the answer; at the end the interpreter's sandbox is freed."""
        result = await super().astep(action)
        if result[2]:
            await self._interpreter.aclose()
        return result

    async def aclose(self) -> None:
        """Free the interpreter's sandbox."""
        await self._interpreter.aclose()

    @tool
    async def python(self, code: str) -> str:
        """Run Python code in an interpreter that remembers its variables from call to call.

        Args:
            code: statements; what they print is shown, and the value of a last expression.
        """
        return await self._interpreter.run(code)

    @reward
    def correct(self, answer: str, target: int) -> float:
        """1 if the answer is exactly the target."""
        match = _ANSWER.fullmatch(answer.strip())
        return float(match is not None and int(match[1]) == target)


def random_question(rng: np.random.Generator, *, kinds: tuple[str, ...]) -> Task:
    """A question of one of the kinds; its id is left to the task set."""
    kind = kinds[int(rng.integers(len(kinds)))]
    question = KINDS[kind](picker(rng))
    return Task(
        id="question",
        prompt=(user(question.text),),
        target=question.answer,
        metadata={"program": question.program},
        tags=(kind,),
    )
