from __future__ import annotations

import asyncio

import pytest

from turngym.sandboxes.errors import SandboxLost
from turngym.sandboxes.server.calls import Answer, Calls
from turngym.sandboxes.server.messages import raise_error
from turngym.sandboxes.server.wire import decode


async def work(size: int = 10, seconds: float = 0.0) -> Answer:
    await asyncio.sleep(seconds)
    return Answer(200, bytes(size))


def ended() -> None:
    pass


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_a_key_finds_the_running_call_and_then_its_answer() -> None:
    calls = Calls(1000)
    assert calls.find("a", "k") is None
    task = calls.start("a", "k", work(), ended)
    assert calls.find("a", "k") is task
    assert calls.find("b", "k") is None
    answer = await task
    await settle()
    assert calls.find("a", "k") is answer


async def test_answers_beyond_the_memory_are_forgotten_but_their_calls_do_not_run_again() -> None:
    calls = Calls(25)
    for key in "123":
        await calls.start("a", key, work(), ended)
        await settle()
    lost = calls.find("a", "1")
    assert isinstance(lost, Answer)
    with pytest.raises(SandboxLost, match="dropped"):
        raise_error(decode(lost.body))
    assert calls.find("a", "3") == Answer(200, bytes(10))
    await calls.start("a", "large", work(5000), ended)
    await settle()
    assert calls.find("a", "large") == Answer(200, bytes(5000)), "the newest is kept whatever its size"


async def test_the_end_of_a_sandbox_stops_its_calls_and_forgets_its_answers() -> None:
    calls = Calls(1000)
    count = []
    await calls.start("a", "1", work(), ended)
    other = calls.start("b", "1", work(seconds=0.05), ended)
    task = calls.start("a", "2", work(seconds=60), lambda: count.append(1))
    await calls.end("a")
    await settle()
    assert task.cancelled()
    assert count == [1]
    assert calls.find("a", "1") is None
    assert calls.find("a", "2") is None
    assert await other == Answer(200, bytes(10))
    assert calls._bytes == 10
    await calls.end("b")
    assert (calls._bytes, calls._keys, calls._running) == (0, {}, {})
