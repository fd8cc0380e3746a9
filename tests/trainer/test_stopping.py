from __future__ import annotations

import asyncio
import os
import signal

import pytest

from turngym.trainer.stopping import Stopped, StopRequest, on_signal


def test_work_is_cancelled_and_cleaned_up_when_a_stop_is_requested():
    cleaned = []

    async def work():
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    async def main():
        stop = StopRequest()
        asyncio.get_running_loop().call_later(0.01, stop.make)
        with pytest.raises(Stopped):
            await stop.unless_made(work())
        with pytest.raises(Stopped):
            await stop.check()

    asyncio.run(main())
    assert cleaned == [True]


def test_work_that_ends_first_gives_its_result_or_its_error():
    async def result():
        return 3

    async def error():
        raise ValueError("no")

    async def main():
        stop = StopRequest()
        await stop.check()
        assert await stop.unless_made(result()) == 3
        with pytest.raises(ValueError, match="no"):
            await stop.unless_made(error())

    asyncio.run(main())


def test_the_first_ctrl_c_asks_and_the_second_interrupts():
    asked = []

    async def main():
        with on_signal(lambda: asked.append(True)):
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0.01)
            assert asked == [True]
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    loop = asyncio.new_event_loop()  # not asyncio.run, which has a handler of its own
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    assert asked == [True]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_loop_that_is_blocked_can_be_interrupted_all_the_same():
    async def main():
        with on_signal(lambda: None):
            os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):  # the loop had no turn in between
                os.kill(os.getpid(), signal.SIGINT)

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_outside_of_the_main_thread_nothing_is_caught():
    async def main():
        with on_signal(lambda: None):
            return 3

    async def elsewhere():
        return await asyncio.to_thread(asyncio.run, main())

    assert asyncio.run(elsewhere()) == 3
