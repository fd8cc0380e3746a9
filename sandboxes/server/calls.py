"""Calls that run once: each has a key, and whoever asks with the same key gets the same answer.

A call is a task of its own, so a client that hangs up ends nothing; it finds the answer when it comes back.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from turngym.sandboxes.errors import SandboxLost
from turngym.sandboxes.server.messages import error_values
from turngym.sandboxes.server.wire import encode

_KEYS: Final = 256


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the client."""

    status: int
    """Of HTTP: 200 for a result, 422 for an error of the sandbox."""
    body: bytes


def failure(error: BaseException, status: int = 422) -> Answer:
    """An error as an answer."""
    return Answer(status, encode(error_values(error)))


class Calls:
    """Running calls, and the answers of those that ended.

    Answers are kept while they fit into the memory, the newest always; of each sandbox the last 256 keys are
    known even after their answers are forgotten, so that none of those calls runs again.

    Args:
        max_bytes: of all answers together.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._running: dict[tuple[str, str], asyncio.Task[Answer]] = {}
        self._answers: OrderedDict[tuple[str, str], Answer] = OrderedDict()
        self._bytes = 0
        self._keys: dict[str, deque[str]] = {}

    def find(self, sandbox: str, key: str) -> asyncio.Task[Answer] | Answer | None:
        """The call with this key: still running, or answered; None if there was none."""
        place = (sandbox, key)
        found = self._running.get(place) or self._answers.get(place)
        if found is None and key in self._keys.get(sandbox, ()):
            return failure(SandboxLost("the answer to this call was dropped: the server keeps only so many"))
        return found

    def start(
        self, sandbox: str, key: str, work: Coroutine[Any, Any, Answer], ended: Callable[[], None]
    ) -> asyncio.Task[Answer]:
        """Begin a call.

        Args:
            sandbox: its id.
            key: of the call; `find` has just said that it is new.
            work: what the call does; its exceptions are answers already.
            ended: called once, when it has ended.
        """
        place = (sandbox, key)
        task = self._running[place] = asyncio.create_task(work)

        def keep(done: asyncio.Task[Answer]) -> None:
            ended()
            if self._running.pop(place, None) is not None and not done.cancelled():
                self._keep(place, done.result())

        task.add_done_callback(keep)
        return task

    async def end(self, sandbox: str) -> None:
        """Stop a sandbox's calls and forget its answers."""
        for place in [place for place in self._answers if place[0] == sandbox]:
            self._forget(place)
        self._keys.pop(sandbox, None)
        tasks = [task for (name, _), task in self._running.items() if name == sandbox]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _keep(self, place: tuple[str, str], answer: Answer) -> None:
        keys = self._keys.setdefault(place[0], deque())
        keys.append(place[1])
        if len(keys) > _KEYS:
            self._forget((place[0], keys.popleft()))
        self._answers[place] = answer
        self._bytes += len(answer.body)
        while self._bytes > self._max_bytes and len(self._answers) > 1:
            self._forget(next(iter(self._answers)))

    def _forget(self, place: tuple[str, str]) -> None:
        answer = self._answers.pop(place, None)
        self._bytes -= len(answer.body) if answer else 0
