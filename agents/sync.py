"""Runs a coroutine to its end from synchronous code, also where an event loop already runs (a notebook)."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def run_sync(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of `make()`.

    Without a running loop it is `asyncio.run`. Inside one, the coroutine gets a loop in another thread, and
    this call waits for it; an interruption (Ctrl-C, a notebook's stop button) cancels it and waits for its
    cleanup.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    return _run_in_thread(make)


def _run_in_thread(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    results: list[T] = []
    errors: list[BaseException] = []
    started: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def main() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.append((asyncio.get_running_loop(), task))
        return await make()

    def work() -> None:
        try:
            results.append(asyncio.run(main()))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            errors.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="turngym-sync")
    thread.start()
    try:
        thread.join()
    except BaseException:
        for loop, task in started:
            loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    if errors:
        raise errors[0]
    return results[0]


def synchronous(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The synchronous face of a coroutine function: same arguments and docstring, no a before its name."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_sync(lambda: function(*args, **kwargs))

    call.__name__ = call.__qualname__ = function.__name__.removeprefix("a")
    return call
