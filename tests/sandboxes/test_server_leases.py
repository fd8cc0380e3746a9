from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from turngym.sandboxes.errors import SandboxBusy, SandboxLost, SandboxUnavailable
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.server.calls import Answer, Calls
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.leases import Leases, Stopping
from turngym.sandboxes.server.messages import Create

from .scripted import ScriptedBackend, unavailable
from .served import until


def order(lease_s: float = 60, limits: Limits = DEFAULT_LIMITS, image: str | None = None) -> Create:
    return Create(limits=limits, lease_s=lease_s, image=image)


@contextlib.asynccontextmanager
async def lending(backend: ScriptedBackend, **config: Any) -> AsyncIterator[Leases]:
    images = config.pop("images", {})
    leases = Leases(backend, images, ServeConfig(**config), Calls(1000))
    reaping = asyncio.create_task(leases.reap())
    try:
        yield leases
    finally:
        reaping.cancel()
        await leases.close_all()


async def test_a_sandbox_ends_when_its_lease_runs_out_and_no_sooner() -> None:
    backend = ScriptedBackend()
    async with lending(backend) as leases:
        await leases.create("short", order(0.5), 1)
        await leases.create("long", order(0.5), 1)
        for _ in range(8):
            await asyncio.sleep(0.2)
            leases.renew(["long", "unknown"], [])
        assert [sandbox.closed for sandbox in backend.made] == [True, False]
        with pytest.raises(SandboxLost, match="its lease ran out"):
            leases.find("short")
        leases.find("long")


async def test_asking_twice_makes_one() -> None:
    backend = ScriptedBackend(create_s=0.1)
    async with lending(backend) as leases:
        assert await leases.create("a", order(), 0.01) is False
        assert await asyncio.gather(leases.create("a", order(), 1), leases.create("a", order(), 1)) == [
            True,
            True,
        ]
        with pytest.raises(ValueError, match="another sandbox"):
            await leases.create("a", order(lease_s=3), 1)
    assert len(backend.made) == 1
    assert backend.living == 0


async def test_one_that_is_dropped_while_it_is_made_ends() -> None:
    backend = ScriptedBackend(create_s=0.1)
    async with lending(backend) as leases:
        assert await leases.create("a", order(), 0) is False
        leases.renew([], ["a"])
        await until(lambda: len(backend.made) == 1 and backend.living == 0)
        assert len(leases) == 0


async def test_a_running_call_does_not_keep_a_sandbox_whose_client_is_silent() -> None:
    backend = ScriptedBackend()
    async with lending(backend) as leases:
        await leases.create("a", order(0.3), 1)

        async def sleep() -> Answer:
            await backend.made[0].exec(["sleep", "60"])
            return Answer(200, b"")

        task = leases._calls.start("a", "k", sleep(), lambda: None)
        await until(lambda: backend.living == 0)
        assert task.cancelled()


async def test_there_are_never_more_than_allowed() -> None:
    async with lending(ScriptedBackend(), max_sandboxes=2) as leases:
        await leases.create("a", order(), 1)
        await leases.create("b", order(), 1)
        with pytest.raises(SandboxBusy, match="all 2 sandboxes"):
            await leases.create("c", order(), 1)
        await leases.close("a")
        await leases.create("c", order(), 1)


async def test_one_that_cannot_be_made_takes_no_place() -> None:
    backend = ScriptedBackend(error=unavailable())
    async with lending(backend, max_sandboxes=1) as leases:
        for name in "ab":
            with pytest.raises(SandboxUnavailable, match="install one"):
                await leases.create(name, order(), 1)


async def test_more_than_the_maxima_is_refused_and_named() -> None:
    async with lending(ScriptedBackend(), max_lease_s=60) as leases:
        with pytest.raises(ValueError, match=r"memory_mib 5000 \(at most 4096\), network True"):
            await leases.create("a", order(limits=Limits(memory_mib=5000, network=True)), 1)
        with pytest.raises(ValueError, match="a lease of 61 s"):
            await leases.create("a", order(lease_s=61), 1)


async def test_images_are_those_of_the_list() -> None:
    usual, other = ScriptedBackend(), ScriptedBackend()
    async with lending(usual, images={"python": other}) as leases:
        await leases.create("a", order(image="python"), 1)
        assert (len(usual.made), len(other.made)) == (0, 1)
        with pytest.raises(ValueError, match="it offers: python"):
            await leases.create("b", order(image="evil:latest"), 1)


async def test_after_the_end_nothing_is_made() -> None:
    backend = ScriptedBackend()
    async with lending(backend) as leases:
        await leases.create("a", order(), 1)
        await leases.close_all()
        assert backend.living == 0
        with pytest.raises(Stopping):
            await leases.create("b", order(), 1)
