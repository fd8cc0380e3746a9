"""Something that lives elsewhere and cannot be copied (an interpreter, a server, a running program), made copyable: a
copy says to a new one what was said to the first.

    session = Replay(open_one, say, close_one)
    answer = await session.send("x = 1")        # opened at the first use
    twin = copy.deepcopy(session)               # costs nothing; opens another when it is used

An environment that keeps its session in such an attribute keeps the fork law as far as the other side is
deterministic: a replay whose answers differ is an InfrastructureError, never a silently different episode.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from turngym.envs.errors import InfrastructureError

Live = TypeVar("Live")
Said = TypeVar("Said")
Answer = TypeVar("Answer")


class Replay(Generic[Live, Said, Answer]):
    """A log of what was said and answered, and the live thing that it was said to, if there is one at the moment.

    Args:
        start: opens a new one in its first state.
        say: says one thing and waits for the answer; answers are compared with `==`.
        stop: releases one. It must not raise for what is gone.

    Calls follow each other; copies are independent.
    """

    def __init__(
        self,
        start: Callable[[], Awaitable[Live]],
        say: Callable[[Live, Said], Awaitable[Answer]],
        stop: Callable[[Live], Awaitable[None]],
    ) -> None:
        self._start = start
        self._say = say
        self._stop = stop
        self._live: Live | None = None
        self._log: tuple[tuple[Said, Answer], ...] = ()

    @property
    def log(self) -> tuple[tuple[Said, Answer], ...]:
        """What was said and answered so far."""
        return self._log

    async def send(self, said: Said) -> Answer:
        """Say one thing; a copy that was not used yet first repeats what came before.

        Raises:
            InfrastructureError: a repeated answer differs from the first one.
            Exception: whatever opening or saying raises; the live one is then released.
        """
        live = await self.live()
        try:
            answer = await self._say(live, said)
        except BaseException:
            await self.aclose()
            raise
        self._log = (*self._log, (said, answer))
        return answer

    async def live(self) -> Live:
        """The live one, in the state after everything that was said; opened and told so if need be."""
        if self._live is None:
            self._live = await self._start()
            try:
                for number, (said, before) in enumerate(self._log):
                    if (again := await self._say(self._live, said)) != before:
                        raise InfrastructureError(
                            f"a copy of this episode went another way: answer {number} was {_shown(before)}, "
                            f"and is {_shown(again)} now"
                        )
            except BaseException:
                await self.aclose()
                raise
        return self._live

    async def aclose(self) -> None:
        """Release the live one; what was said is remembered. Safe to call twice."""
        live, self._live = self._live, None
        if live is not None:
            await asyncio.shield(asyncio.ensure_future(self._stop(live)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Replay[Live, Said, Answer]:
        twin: Replay[Live, Said, Answer] = Replay(self._start, self._say, self._stop)
        twin._log = self._log
        return twin


def _shown(answer: object) -> str:
    text = repr(answer)
    return text if len(text) <= 200 else text[:197] + "..."
