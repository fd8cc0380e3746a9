import asyncio
import contextlib

import pytest

from turngym.sandboxes.errors import SandboxBusy, SandboxError, SandboxLost, SandboxUnavailable
from turngym.sandboxes.pool import SandboxPool


class FakeSandbox:
    def __init__(self, backend):
        self.backend = backend
        self.closed = False
        self.dead = False
        self.uses = 0

    async def ping(self):
        if self.dead:
            raise SandboxLost("gone")

    async def close(self):
        await asyncio.sleep(0)
        assert not self.closed, "closed twice"
        self.closed = True
        self.backend.open -= 1


class FakeBackend:
    name = "fake"

    def __init__(self, *, fails=0, slow_s=0.0):
        self.open = self.most = self.made = 0
        self.fails = fails
        self.slow_s = slow_s

    async def create(self, limits=None):
        await asyncio.sleep(self.slow_s)
        if self.fails:
            self.fails -= 1
            raise SandboxUnavailable("not now")
        self.open += 1
        self.made += 1
        self.most = max(self.most, self.open)
        return FakeSandbox(self)


async def test_two_hundred_takers_of_eight_places_are_served_or_told_busy_by_their_deadline():
    backend = FakeBackend()
    pool = SandboxPool(backend, size=8)
    served, busy = [], []
    loop = asyncio.get_running_loop()

    async def taker(number):
        deadline_s = 0.3 if number % 2 else 5.0
        began = loop.time()
        try:
            async with pool.acquire(deadline_s) as sandbox:
                assert sandbox.uses == 0, "a used sandbox was handed out"
                sandbox.uses += 1
                await asyncio.sleep(0.02)
                served.append(number)
        except SandboxBusy:
            assert loop.time() - began < deadline_s + 0.5
            busy.append(number)

    await asyncio.gather(*(taker(number) for number in range(200)))
    assert sorted(served + busy) == list(range(200))
    assert len(served) >= 100
    assert backend.most <= 8
    assert backend.open == 0
    assert pool.in_use == 0


async def test_takers_are_served_in_the_order_in_which_they_came():
    pool = SandboxPool(FakeBackend(), size=1)
    order = []

    async def taker(number):
        async with pool.acquire():
            order.append(number)

    await asyncio.gather(*(taker(number) for number in range(20)))
    assert order == list(range(20))


async def test_a_taker_that_is_cancelled_or_fails_gives_its_place_back():
    backend = FakeBackend()
    pool = SandboxPool(backend, size=1)

    async def holder():
        async with pool.acquire():
            await asyncio.sleep(60)

    for _ in range(5):
        task = asyncio.ensure_future(holder())
        await asyncio.sleep(0.01)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    with pytest.raises(ZeroDivisionError):
        async with pool.acquire():
            raise ZeroDivisionError
    async with pool.acquire(0.1):
        assert backend.open == 1
    assert backend.open == 0


async def test_spares_wait_ready_and_a_dead_one_is_replaced():
    backend = FakeBackend()
    async with SandboxPool(backend, size=4, spares=2) as pool:
        assert backend.open == 2
        first = pool._ready[0]
        first.dead = True
        async with pool.acquire() as sandbox:
            assert sandbox is not first
            assert first.closed
        await asyncio.sleep(0.01)
        assert backend.open == 2
    assert backend.open == 0


async def test_a_backend_that_cannot_make_one_says_so_and_the_place_is_free_again():
    pool = SandboxPool(FakeBackend(fails=1), size=1)
    with pytest.raises(SandboxUnavailable, match="not now"):
        async with pool.acquire():
            pytest.fail("there is no sandbox")
    async with pool.acquire():
        pass
    slow = SandboxPool(FakeBackend(slow_s=5), size=1)
    with pytest.raises(SandboxBusy, match="time that was left"):
        async with slow.acquire(0.05):
            pytest.fail("there is no sandbox")
    await pool.close()
    with pytest.raises(SandboxError, match="closed"):
        async with pool.acquire():
            pytest.fail("there is no pool")
    with pytest.raises(ValueError, match="at least one place"):
        SandboxPool(FakeBackend(), size=0)
