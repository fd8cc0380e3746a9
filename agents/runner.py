"""Plays many episodes at once on one event loop: bounded, started in order, each failure kept to itself."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium

from turngym.agents.driver import EnvDriver
from turngym.agents.failures import RETRYABLE, failure
from turngym.agents.limits import Limits
from turngym.agents.protocols import Agent, NoiseKey
from turngym.agents.rollout import rollout
from turngym.agents.types import Outcome, Trajectory
from turngym.envs.tasks import Task

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
"""Makes a fresh environment."""

BATCH = 256
"""The most finished episodes that wait to be taken; then the runner waits too."""

_NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class EpisodeRequest:
    """One episode to play."""

    task: Task
    """The task."""
    seed: int
    """Seed of the environment's reset."""
    noise: NoiseKey
    """The agent's stream of sampling noise."""
    sample: int
    """Number of the episode among those of its task."""
    group: int
    """Number of the group that it is compared within."""
    env_id: str
    """Id of the environment, for the record of an episode whose environment could not even be made."""


Finished = tuple[EpisodeRequest, Trajectory]
"""A request and what became of it."""


def episode_seed(run_seed: int, step: int, task_id: str, sample: int = 0) -> int:
    """A reset seed below 2³¹ that depends on nothing but these four.

    The members of a group start alike where they all use `sample=0`.
    """
    digest = hashlib.sha256(f"{run_seed}/{step}/{sample}/{task_id}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], "little") >> 1


async def run_episodes(
    make_env: MakeEnv,
    agent: Agent,
    requests: Iterable[EpisodeRequest],
    *,
    limits: Limits = _NO_LIMITS,
    concurrency: int = 64,
    retries: int = 2,
) -> AsyncGenerator[Finished, None]:
    """Play the requests and give each trajectory as it finishes.

    Args:
        make_env: makes a fresh environment. One is reused for the next episode after a clean end, never
            after a failure.
        agent: plays them all.
        requests: read lazily and started in this order.
        limits: of each episode.
        concurrency: the most episodes at once.
        retries: fresh attempts after a failure that is not the agent's; then the failure is the record (law
            10).

    Leave the loop early only inside `contextlib.aclosing(run_episodes(…))`: that closes every environment
    at once.
    """
    batches = run_batches(make_env, agent, requests, limits=limits, concurrency=concurrency, retries=retries)
    async with contextlib.aclosing(batches):
        async for batch in batches:
            for finished in batch:
                yield finished


async def run_batches(
    make_env: MakeEnv,
    agent: Agent,
    requests: Iterable[EpisodeRequest],
    *,
    limits: Limits = _NO_LIMITS,
    concurrency: int = 64,
    retries: int = 2,
) -> AsyncGenerator[list[Finished], None]:
    """`run_episodes` in lists: each holds what finished since the last was taken, at most `BATCH` episodes.

    Whoever stores episodes takes them from here: a list is one transaction, and nothing finished waits for
    more.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency must be at least 1, not {concurrency}")
    outbox = _Outbox()
    source = iter(requests)
    workers = [_Worker(make_env, agent, limits, retries) for _ in range(concurrency)]
    everyone = asyncio.create_task(_run_all(workers, source, outbox))
    try:
        while batch := await outbox.take():
            yield batch
        await everyone  # raises what ended the work early, such as an error in `requests`
    finally:
        everyone.cancel()
        await asyncio.gather(everyone, return_exceptions=True)


async def _run_all(workers: list[_Worker], source: Iterator[EpisodeRequest], outbox: _Outbox) -> None:
    tasks = [asyncio.create_task(worker.run(source, outbox)) for worker in workers]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # each closes its environment
        outbox.end()


class _Worker:
    """Plays one episode after another, with at most one environment at a time."""

    def __init__(self, make_env: MakeEnv, agent: Agent, limits: Limits, retries: int) -> None:
        self._make_env = make_env
        self._agent = agent
        self._limits = limits
        self._retries = retries
        self._driver: EnvDriver | None = None

    async def run(self, source: Iterator[EpisodeRequest], outbox: _Outbox) -> None:
        """Take requests from the common source until it is empty."""
        try:
            for request in source:
                await outbox.put((request, await self._play(request)))
        finally:
            await self._close_env()

    async def _play(self, request: EpisodeRequest) -> Trajectory:
        attempt = 1
        while True:
            trajectory = await self._attempt(request)
            outcome = trajectory.outcome
            if outcome.kind == "failed" or outcome.cause == "time":
                await self._close_env()  # it may be in any state, even in the middle of a step
            if outcome.cause not in RETRYABLE or attempt > self._retries:
                return trajectory if attempt == 1 else dataclasses.replace(trajectory, attempts=attempt)
            attempt += 1

    async def _attempt(self, request: EpisodeRequest) -> Trajectory:
        if self._driver is None:
            try:
                self._driver = EnvDriver(self._make_env())
            except Exception as error:  # noqa: BLE001 (law 11: it fails this episode)
                return _never_began(request, failure(error, "env"))
        return await rollout(
            self._driver,
            self._agent,
            task=request.task,
            seed=request.seed,
            noise=request.noise,
            limits=self._limits,
        )

    async def _close_env(self) -> None:
        if self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.close()


class _Outbox:
    """Finished episodes on their way to the consumer. Bounded, so that memory is flat."""

    def __init__(self) -> None:
        self._items: list[Finished] = []
        self._ended = False
        self._ready = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, item: Finished) -> None:
        """Add an episode, when there is room."""
        while len(self._items) >= BATCH:
            self._room.clear()
            await self._room.wait()
        self._items.append(item)
        self._ready.set()

    async def take(self) -> list[Finished]:
        """Wait until something has finished and take all of it; empty once everything has been taken."""
        await self._ready.wait()
        items, self._items = self._items, []
        if not self._ended:
            self._ready.clear()
        self._room.set()
        return items

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._ready.set()


def _never_began(request: EpisodeRequest, outcome: Outcome) -> Trajectory:
    return Trajectory(
        env_id=request.env_id,
        task_id=request.task.id,
        task_hash=request.task.content_hash,
        seed=request.seed,
        sample=request.sample,
        prompt=(),
        tools=(),
        turns=(),
        outcome=outcome,
    )
