"""Ctrl-C: the first one asks a run to end in order, the second one ends it at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """The run was asked to end: no error, but somebody's wish."""


class StopRequest:
    """Whether somebody asked the run to end, and work that gives way when they do."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    @property
    def made(self) -> bool:
        """True once it was made."""
        return self._event.is_set()

    def make(self) -> None:
        """Ask the run to end. Call it in the run's event loop."""
        self._event.set()

    async def check(self) -> None:
        """Let the event loop see signals, and give way if there was one.

        Raises:
            Stopped: a request was made.
        """
        await asyncio.sleep(0)
        if self.made:
            raise Stopped

    async def unless_made(self, work: Awaitable[T]) -> T:
        """Await some work, or cancel it and wait for its cleanup when a request is made.

        Raises:
            Stopped: a request was made.
        """
        task = asyncio.ensure_future(work)
        stop = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait([task, stop], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        raise Stopped


@contextlib.contextmanager
def on_signal(react: Callable[[], None]) -> Iterator[None]:
    """Within the block, the first SIGINT or SIGTERM calls `react` in the running event loop; the next is as
    usual.

    Elsewhere than in the main thread signals cannot be caught, and nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    # None stands for a handler that was not set from Python, and could not be put back.
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}

    def release() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def first(_number: int, _frame: FrameType | None) -> None:
        # Not a handler of the loop: one that blocks, in an environment or an update, would never call it, and the
        # next signal would find it still in place.
        release()
        loop.call_soon_threadsafe(react)

    for number in SIGNALS:
        signal.signal(number, first)
    try:
        yield
    finally:
        release()
