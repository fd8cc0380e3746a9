from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from turngym.sandboxes import async_bridge


async def waits(value):
    await asyncio.sleep(0.001)
    return value


async def never_waits(value):
    return value


def test_inline_needs_no_loop():
    assert async_bridge.run_inline(never_waits(3)) == 3
    with pytest.raises(RuntimeError, match="needs an event loop"):
        async_bridge.run_inline(asyncio.sleep(0))


def test_one_background_thread_serves_all():
    threads = {async_bridge.run(thread_of()) for _ in range(3)}
    assert len(threads) == 1
    assert threads != {threading.get_ident()}


async def thread_of():
    return threading.get_ident()


def test_many_threads_at_once():
    results = []
    callers = [
        threading.Thread(target=lambda n=n: results.append(async_bridge.run(waits(n)))) for n in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert sorted(results) == list(range(8))


def test_errors_come_through():
    async def fails():
        raise KeyError("x")

    with pytest.raises(KeyError):
        async_bridge.run(fails())


def test_blocking_in_the_background_loop_is_refused():
    async def nested():
        return async_bridge.run(never_waits(1))

    with pytest.raises(RuntimeError, match="await the async one"):
        async_bridge.run(nested())


@pytest.mark.filterwarnings(
    "ignore:.*fork:DeprecationWarning"
)  # Python 3.12 warns where threads run: that is the test
def test_a_forked_child_gets_its_own_loop():
    async_bridge.run(waits(1))
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that waits for its parent's thread would wait for ever
        os._exit(async_bridge.run(waits(7)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
