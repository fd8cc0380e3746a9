"""A learned reward model as a reward: conversations in, numbers out, many at a time.

helpful = scored(my_model, range=(-5, 5))
env = ToolEnv(tasks=…, rewards=[helpful])
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from turngym.envs.episode import EpisodeView
from turngym.envs.errors import ContractError, GradingError
from turngym.envs.messages import Message
from turngym.envs.rewards import reward

Conversation = tuple[Message, ...]


@runtime_checkable
class Scorer(Protocol):
    """A reward model. One serves many episodes at once."""

    async def score(self, conversations: Sequence[Conversation]) -> Sequence[float]:
        """One number for each conversation, in order.

        Raises:
            InfrastructureError: there is no answer; the episodes are retried, never scored.
        """
        ...


def scored(
    scorer: Scorer,
    *,
    range: tuple[float, float],
    outside: Literal["error", "clip"] = "error",
    weight: float = 1.0,
    name: str = "scorer",
    batch: int = 64,
    wait_s: float = 0.005,
) -> Callable[[EpisodeView], Coroutine[Any, Any, float]]:
    """A reward that is what a model gives for the whole conversation.

    Args:
        scorer: the model.
        range: least and greatest value, finite both.
        outside: what becomes of a value outside of the range: "error" (InvalidReward: the episode has no score), or
            "clip" to the nearer bound, which a policy that has found the model's blind spot then earns again and
            again. NaN and infinities are an error either way.
        weight: factor in the environment's reward.
        name: in reports.
        batch: the most conversations of one call.
        wait_s: how long a conversation waits for others, in seconds.

    Raises:
        ContractError: a bound is not finite, or the range is empty.
    """
    low, high = range
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ContractError(f"{name}: a range of two finite bounds, not {range}")
    if outside not in ("error", "clip"):
        raise ContractError(f"{name}: outside is 'error' or 'clip', not {outside!r}")
    batcher = _Batcher(scorer, batch, wait_s, name)

    @reward(weight=weight, range=(low, high), name=name)
    async def value(trajectory: EpisodeView) -> float:
        got = await batcher.score(trajectory.messages)
        return min(max(got, low), high) if outside == "clip" else got

    return value


class _Batcher:
    """Gathers the conversations of episodes that end at about the same time, loop by loop."""

    def __init__(self, scorer: Scorer, batch: int, wait_s: float, name: str) -> None:
        self._scorer = scorer
        self._batch = batch
        self._wait_s = wait_s
        self._name = name
        self._waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Batch] = (
            weakref.WeakKeyDictionary()
        )

    async def score(self, conversation: Conversation) -> float:
        """What the model gives for one conversation."""
        loop = asyncio.get_running_loop()
        batch = self._waiting.get(loop)
        if batch is None:
            batch = self._waiting[loop] = _Batch()
            batch.work = loop.create_task(self._run(loop, batch))
        batch.conversations.append(conversation)
        if len(batch.conversations) >= self._batch:
            del self._waiting[loop]
            batch.is_full.set()
        place = len(batch.conversations) - 1
        assert batch.work is not None
        values = await asyncio.shield(batch.work)  # one episode that is cancelled takes no other with it
        return values[place]

    async def _run(self, loop: asyncio.AbstractEventLoop, batch: _Batch) -> list[float]:
        try:
            async with asyncio.timeout(self._wait_s):
                await batch.is_full.wait()
        except TimeoutError:
            if self._waiting.get(loop) is batch:
                del self._waiting[loop]
        values = list(await self._scorer.score(batch.conversations))
        if len(values) != len(batch.conversations):
            raise GradingError(
                f"the model of {self._name!r} gave {len(values)} values for {len(batch.conversations)} conversations"
            )
        return [self._finite(value) for value in values]

    def _finite(self, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, str) or not math.isfinite(number):
            raise GradingError(f"the model of {self._name!r} gave {value!r}, which is no finite number")
        return number


class _Batch:
    """Conversations that are scored together."""

    def __init__(self) -> None:
        self.conversations: list[Conversation] = []
        self.is_full = asyncio.Event()
        self.work: asyncio.Task[list[float]] | None = None
