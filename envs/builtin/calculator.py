"""Calculator: work out an expression of two to four operations with a tool that does one operation at a time.

Each call needs the result of an earlier one, and the reward comes only with the final answer: the smallest
task in which credit must flow back over several turns of tool use.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from turngym.envs.messages import Message, ToolCall, assistant, user
from turngym.envs.rewards import reward
from turngym.envs.tasks import GeneratedTasks, Task
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import tool

Operator = Literal["+", "-", "*"]
Shape = Literal["chain", "tree"]
Step = tuple[int, Operator, int]
Pick = Callable[[int, int], int]
"""An integer from low to high, both included."""

GREATEST = 999
"""No intermediate result is greater, and none is negative."""
_MOST_OPERATIONS = 7
_MOST_DRAWS = (
    1 + 4 * _MOST_OPERATIONS + 1
)  # the count; per operation a split, an operator, an operand; a first operand
SLIP = 1 / 5
"""Share of calls in which the sloppy policy misreads a digit."""
_ANSWER = re.compile(r"(?:The answer is )?(-?[0-9]{1,9})\.?")


def apply(a: int, op: Operator, b: int) -> int:
    """a op b."""
    if op == "+":
        return a + b
    return a - b if op == "-" else a * b


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Make the first needed call that no call so far has made, then answer with the last result."""
    made = [_arguments(call) for message in history for call in message.tool_calls]
    for number, (a, op, b) in enumerate(task.metadata["steps"]):
        arguments = {"a": a, "op": op, "b": b}
        if arguments not in made:
            return assistant(None, ToolCall.of("calculator", arguments, id=f"call_{number}"))
        made.remove(arguments)
    return assistant(str(task.target))


def sloppy(task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Work like the expert, but slip in one call of five: a digit is wrong, and the work goes on from its result.

    Half of its answers are wrong. Whoever learns from it and from the reward must become better than it.
    """
    results = [message.text for message in history if message.role == "tool"]
    steps: list[Step] = task.metadata["steps"]
    if len(results) == len(steps):
        return assistant(results[-1])
    # What the expert would have got at each step so far, and what really came of it.
    came = {apply(*step): int(result) for step, result in zip(steps, results, strict=False)}
    a, op, b = steps[len(results)]
    a, b = came.get(a, a), came.get(b, b)
    if rng.random() < SLIP:
        a, b = (_misread(a, rng), b) if rng.random() < 0.5 else (a, _misread(b, rng))
    return assistant(None, ToolCall.of("calculator", {"a": a, "op": op, "b": b}, id=f"call_{len(results)}"))


def _misread(number: int, rng: np.random.Generator) -> int:
    """The number with one digit changed."""
    digits = list(str(abs(number)))
    place = int(rng.integers(len(digits)))
    digits[place] = str((int(digits[place]) + int(rng.integers(1, 10))) % 10)
    return int("".join(digits)) * (-1 if number < 0 else 1)


def _arguments(call: ToolCall) -> Any:
    try:
        return json.loads(call.function.arguments)
    except ValueError:
        return None


class Calculator(ToolEnv):
    """Work out an expression with a calculator that does one operation per call.

    The final message must be the integer alone, or "The answer is 52." with or without its full stop; nothing
    else is read. The reward is 1 for the right integer and 0 otherwise, at the end. It does not ask for the
    calls: a policy that gets the integer right without them has solved the task too. The eighth turn is the
    last.

    Args:
        least: fewest operations of a question.
        most: greatest number of operations.
        shape: "chain" nests to the left, `((7 + 12) * 3) - 5`, so each call needs the one before; "tree" also
            nests to the right and in the middle, `(7 + 12) * (9 - 5)`.
        split: "train" (endless) or "test" (10,000 questions, none of which is in train).

    Raises:
        ValueError: not 1 ≤ least ≤ most ≤ 7.
    """

    system_prompt = "Use the calculator for each step. Then give only the number."
    max_turns = 8
    answer_formats = (r"The answer is (?P<answer>-?[0-9]{1,9})\.?",)
    policies: ClassVar = {"expert": expert, "sloppy": sloppy}

    def __init__(
        self,
        *,
        least: int = 2,
        most: int = 4,
        shape: Shape = "chain",
        split: str | None = None,
        **kwargs: Any,
    ) -> None:
        if not 1 <= least <= most <= _MOST_OPERATIONS or shape not in ("chain", "tree"):
            raise ValueError(
                f"expected 1 ≤ least ≤ most ≤ 7 and chain or tree, got {least}, {most} and {shape!r}"
            )

        generate = functools.partial(random_question, least=least, most=most, shape=shape)
        tasks = GeneratedTasks(
            f"calculator-{least}-{most}-{shape}", generate, sizes={"train": None, "test": 10_000}
        )
        super().__init__(tasks=tasks, split=split, **kwargs)

    @tool
    def calculator(self, a: int, op: Operator, b: int) -> int:
        """Work out a op b."""
        return apply(a, op, b)

    @reward
    def correct(self, answer: str, target: int) -> float:
        """1 if the answer is exactly the target."""
        match = _ANSWER.fullmatch(answer.strip())
        return float(match is not None and int(match[1]) == target)


def random_question(rng: np.random.Generator, *, least: int, most: int, shape: Shape) -> Task:
    """A question with `least` to `most` operations; its id is left to the task set."""
    pick = _picker(rng)
    steps: list[Step] = []
    text, value = _expression(pick, pick(least, most), shape, steps)
    prompt = (user(f"Compute {text}"),)
    return Task(id="question", prompt=prompt, target=value, metadata={"steps": steps})


def _picker(rng: np.random.Generator) -> Pick:
    """Integers from one vector of uniform numbers: a call of the generator for each would cost the most."""
    uniforms = iter(rng.random(_MOST_DRAWS).tolist())
    return lambda low, high: low + int(next(uniforms) * (high - low + 1))


def _expression(pick: Pick, operations: int, shape: Shape, steps: list[Step]) -> tuple[str, int]:
    """Text and value of a random expression; appends the operations in an order in which they can be done."""
    if operations == 0:
        value = pick(1, 99)
        return str(value), value
    right = 0 if shape == "chain" else pick(0, operations - 1)
    a_text, a = _expression(pick, operations - 1 - right, shape, steps)
    if right:
        b_text, b = _expression(pick, right, shape, steps)
        fitting: list[Operator] = [op for op in ("+", "-", "*") if 0 <= apply(a, op, b) <= GREATEST]
        if not fitting:  # both sides are great: only their difference stays in bounds, the other way round
            (a_text, a), (b_text, b), fitting = (b_text, b), (a_text, a), ["-"]
        op = fitting[pick(0, len(fitting) - 1)]
    else:
        op, b = _operation(pick, a)
        b_text = str(b)
    steps.append((a, op, b))
    return f"{_bracketed(a_text)} {op} {_bracketed(b_text)}", apply(a, op, b)


def _operation(pick: Pick, a: int) -> tuple[Operator, int]:
    """An operator and a second operand of one or two digits that keep the result within 0 … 999."""
    bounds: dict[Operator, tuple[int, int]] = {
        "+": (1, min(99, GREATEST - a)),
        "-": (1, min(99, a)),
        "*": (2, min(9, GREATEST // a if a else 9)),
    }
    fitting = [op for op, (low, high) in bounds.items() if low <= high]
    op = fitting[pick(0, len(fitting) - 1)]
    return op, pick(*bounds[op])


def _bracketed(text: str) -> str:
    return f"({text})" if " " in text else text
