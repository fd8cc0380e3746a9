"""Reward functions of TRL's form, `(completions, **columns) -> list[float]`, as rewards here. Needs no TRL.

    rewards = [trl_reward(accuracy_reward, columns={"solution": "target"})]
    env = ToolEnv(tasks=…, rewards=rewards)

TRL calls such a function once for a whole batch: `prompts` and `completions` (as conversations, or as texts), and
each column of the data set by name, all of the same length; it returns one number for each, or None where the
function does not apply. Here it is called for one episode, so with lists of one.

Source: documentation of TRL's GRPOTrainer, "Using a custom reward function".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from turngym.envs.errors import ContractError, GradingError
from turngym.envs.messages import Message
from turngym.envs.rewards import reward
from turngym.envs.tasks import Task

# What TRL passes besides, and what stands for it where there are no tokens and no trainer.
_ABSENT: Final = (
    "completion_ids",
    "completions_ids",
    "trainer_state",
    "log_extra",
    "log_metric",
    "environments",
)


def trl_reward(
    function: Callable[..., Any],
    *,
    columns: Mapping[str, str] | None = None,
    conversational: bool = True,
    weight: float = 1.0,
    range: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
) -> Callable[..., Any]:
    """A reward for `ToolEnv(rewards=[…])` from a reward function of TRL's form.

    Args:
        function: `def` or `async def`, called with lists of one.
        columns: the function's columns, and where each comes from: "target", "id", or a key of the task's
            metadata. Default: every key of the metadata under its own name, and `target`.
        conversational: give it messages (dictionaries), as TRL does for conversational data; else texts: the
            prompt's, and the final answer.
        weight: factor in the environment's reward.
        range: least and greatest value that it may return; anything else raises InvalidReward.
        name: default: the function's.

    A None ("does not apply") pays nothing, as in TRL's sum.

    Raises:
        ContractError: the function asks for token ids, which an environment does not see.
    """
    known = inspect.signature(function).parameters
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    for parameter in known.values():
        if parameter.name in _ABSENT and parameter.default is parameter.empty:
            raise ContractError(
                f"reward {function.__name__} asks for {parameter.name!r}, which only TRL's trainer has"
            )

    def arguments(task: Task, history: Sequence[Message]) -> dict[str, list[Any]]:
        prompt, completion = _episode(history, conversational)
        given = {"prompts": [prompt], "completions": [completion]}
        given |= {
            column: [_column(task, source, column)] for column, source in _sources(task, columns).items()
        }
        return {key: value for key, value in given.items() if takes_all or key in known}

    def only(values: Any) -> float:
        if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != 1:
            raise GradingError(f"reward {function.__name__} returned {values!r}, not a list of one number")
        value: float = 0.0 if values[0] is None else values[0]
        return value

    async def awaited(task: Task, history: Sequence[Message]) -> float:
        return only(await function(**arguments(task, history)))

    def called(task: Task, history: Sequence[Message]) -> float:
        return only(function(**arguments(task, history)))

    graded: Callable[..., Any] = awaited if inspect.iscoroutinefunction(function) else called
    return reward(weight=weight, range=range, name=name or function.__name__)(graded)


def _episode(history: Sequence[Message], conversational: bool) -> tuple[Any, Any]:
    """What came before the first action, and everything from it on (as texts: the last action only)."""
    first = next((n for n, message in enumerate(history) if message.role == "assistant"), len(history))
    if conversational:
        return [m.wire() for m in history[:first]], [m.wire() for m in history[first:]]
    said = [message.text for message in history[first:] if message.role == "assistant"]
    return "\n".join(message.text for message in history[:first]), said[-1] if said else ""


def _sources(task: Task, columns: Mapping[str, str] | None) -> Mapping[str, str]:
    return {"target": "target"} | {key: key for key in task.metadata} if columns is None else columns


def _column(task: Task, source: str, column: str) -> Any:
    if source in task.metadata:
        return task.metadata[source]
    if source in ("target", "id"):
        return getattr(task, source)
    raise GradingError(f"task {task.id!r} has no {source!r} in its metadata for the column {column!r}")
