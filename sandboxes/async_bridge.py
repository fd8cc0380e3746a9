"""How synchronous code waits for a coroutine: inline if it never really waits, else on one background event
loop.

The background loop runs in its own thread, so it works where an event loop already runs (a notebook, a
server).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_inline(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that awaits nothing that waits; no event loop, no thread.

    Raises:
        RuntimeError: it did wait for something.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: Result = stop.value
        return result
    coroutine.close()
    raise RuntimeError("this coroutine waits for something: it needs an event loop")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the background loop and block until it is done.

    An interruption (Ctrl-C) of the waiting thread cancels the coroutine.

    Raises:
        RuntimeError: called from the background loop itself, where blocking would wait for ever.
    """
    loop = _background.loop()
    if threading.get_ident() == _background.thread_id:
        coroutine.close()
        raise RuntimeError(
            "a synchronous step or reset was called inside the background event loop: await the async one"
        )
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def hop(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine on the background loop and await it, from whichever loop the caller is on.

    If the caller is cancelled, so is the coroutine.
    """
    if threading.get_ident() == _background.thread_id:
        return await coroutine
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, _background.loop()))


def submit(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Start a coroutine on the background loop and do not wait for it."""
    asyncio.run_coroutine_threadsafe(coroutine, _background.loop())


class _Background:
    """The thread and its loop, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread_id: int | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._loop.run_forever, name="turngym-async-bridge", daemon=True
                )
                thread.start()
                self.thread_id = thread.ident
            return self._loop


_background = _Background()


def _start_afresh() -> None:
    # Threads do not survive a fork: the child (an AsyncVectorEnv worker) needs a loop and a lock of its own.
    global _background
    _background = _Background()


os.register_at_fork(after_in_child=_start_afresh)
