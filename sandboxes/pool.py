"""A bounded number of sandboxes at once, with spares that wait ready, each used by one taker and then thrown away."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from time import monotonic
from typing import Final

from turngym.sandboxes.errors import SandboxBusy, SandboxError
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.protocols import Backend, Sandbox

_MAX_TRIES: Final = 3


class SandboxPool:
    """Hands out fresh sandboxes, at most `size` at once. What model code has touched is never used again.

    Args:
        backend: makes them. The pool does not close it.
        limits: of every sandbox.
        size: the most that are in use at once.
        spares: how many wait ready when nobody asks.

    One pool belongs to one event loop.
    """

    def __init__(
        self, backend: Backend, *, limits: Limits = DEFAULT_LIMITS, size: int = 8, spares: int = 0
    ) -> None:
        if size < 1 or spares < 0:
            raise ValueError(f"a pool has at least one place and no negative spares, not {size} and {spares}")
        self._backend = backend
        self._limits = limits
        self._places = asyncio.Semaphore(size)
        self._spares = spares
        self._ready: deque[Sandbox] = deque()
        self._fillers: set[asyncio.Task[None]] = set()
        self._closed = False
        self.in_use = 0
        """Sandboxes that are lent at the moment."""

    @contextlib.asynccontextmanager
    async def acquire(self, timeout_s: float = 60.0) -> AsyncIterator[Sandbox]:
        """A fresh sandbox for the length of a `with`; it is closed at its end, whatever happened.

        Those who wait are served in the order in which they came.

        Raises:
            SandboxBusy: none became free in time.
            SandboxUnavailable: the backend cannot make one.
        """
        if self._closed:
            raise SandboxError("the pool is closed")
        began = monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                await self._places.acquire()
        except TimeoutError:
            raise SandboxBusy(
                f"no sandbox became free within {timeout_s:g} s: {self.in_use} are in use"
            ) from None
        self.in_use += 1
        try:
            sandbox = await self._fresh(timeout_s - (monotonic() - began))
            try:
                yield sandbox
            finally:
                await asyncio.shield(asyncio.ensure_future(sandbox.close()))
        finally:
            self.in_use -= 1
            self._places.release()
            self._refill()

    async def start(self) -> None:
        """Make the spares now, instead of after the first use."""
        self._refill()
        await asyncio.gather(*self._fillers)

    async def close(self) -> None:
        """Close the spares; whoever still has a sandbox keeps it to the end of its `with`. Safe to call twice."""
        self._closed = True
        for task in list(self._fillers):
            task.cancel()
        await asyncio.gather(*self._fillers, return_exceptions=True)
        while self._ready:
            await self._ready.popleft().close()

    async def __aenter__(self) -> SandboxPool:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _fresh(self, left_s: float) -> Sandbox:
        """A spare that answers, or a new sandbox."""
        try:
            async with asyncio.timeout(max(left_s, 0.0)):
                for _ in range(_MAX_TRIES):
                    if not self._ready:
                        break
                    spare = self._ready.popleft()
                    try:
                        await spare.ping()
                    except SandboxError:
                        await spare.close()
                        continue
                    except BaseException:
                        await asyncio.shield(spare.close())
                        raise
                    return spare
                return await self._backend.create(self._limits)
        except TimeoutError:
            raise SandboxBusy("no sandbox could be made in the time that was left") from None

    def _refill(self) -> None:
        wanted = self._spares - len(self._ready) - len(self._fillers)
        for _ in range(0 if self._closed else wanted):
            task = asyncio.ensure_future(self._make_spare())
            self._fillers.add(task)
            task.add_done_callback(self._filled)

    async def _make_spare(self) -> None:
        sandbox = await self._backend.create(self._limits)
        if self._closed:
            await sandbox.close()
        else:
            self._ready.append(sandbox)

    def _filled(self, task: asyncio.Task[None]) -> None:
        self._fillers.discard(task)
        error = None if task.cancelled() else task.exception()
        # A backend that cannot make a spare tells whoever acquires next; anything else is a mistake, and is reported.
        if error is not None and not isinstance(error, SandboxError):
            task.get_loop().call_exception_handler({"message": "a spare sandbox failed", "exception": error})
