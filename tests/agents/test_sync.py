"""Coroutines from synchronous code, with and without a running loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading

import pytest

from turngym.agents.sync import run_sync, synchronous

marker: contextvars.ContextVar[str] = contextvars.ContextVar("marker", default="none")


async def where(value: int) -> tuple[int, str, str]:
    await asyncio.sleep(0)
    return value, threading.current_thread().name, marker.get()


def test_without_a_loop_it_runs_here() -> None:
    assert run_sync(lambda: where(3)) == (3, "MainThread", "none")


def test_inside_a_running_loop_it_runs_in_a_thread_with_the_same_context() -> None:
    async def notebook() -> tuple[int, str, str]:
        marker.set("mine")
        return run_sync(lambda: where(3))

    assert asyncio.run(notebook()) == (3, "turngym-sync", "mine")


def test_errors_come_back() -> None:
    async def fail() -> None:
        raise KeyError("gone")

    async def notebook() -> None:
        with pytest.raises(KeyError, match="gone"):
            run_sync(fail)

    asyncio.run(notebook())
    with pytest.raises(KeyError, match="gone"):
        run_sync(fail)


def test_an_interruption_cancels_and_waits_for_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    running = threading.Event()

    async def work() -> None:
        try:
            running.set()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            events.append("cleaned up")

    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        if thread.name == "turngym-sync" and not events and running.wait(5):
            monkeypatch.undo()
            raise KeyboardInterrupt
        join(thread, timeout)

    async def notebook() -> None:
        monkeypatch.setattr(threading.Thread, "join", interrupted)
        run_sync(work)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(notebook())
    assert events == ["cleaned up"]


def test_a_synchronous_face_keeps_signature_and_docstring() -> None:
    async def adouble(value: int) -> int:
        """Twice the value."""
        return 2 * value

    double = synchronous(adouble)
    assert double(4) == 8
    assert (double.__name__, double.__doc__) == ("double", "Twice the value.")
    assert inspect.signature(double) == inspect.signature(adouble)
    assert not inspect.iscoroutinefunction(double)
