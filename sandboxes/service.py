"""Sandboxes for whoever runs on any event loop, or on none: one backend per name and process, shared by all.

A backend belongs to one event loop, while environments are stepped from whichever loop plays them. So the
backends of a process live on the background loop (`async_bridge`), and every call hops over to it and back.

    service = sandbox_service("namespace")
    sandbox = await service.create(Limits(memory_mib=256))     # from any loop; close it, or let go of it
    verdict = await service.grade(task, candidate)
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, cast

from turngym.sandboxes import async_bridge
from turngym.sandboxes.capabilities import UNTRUSTED
from turngym.sandboxes.errors import SandboxBusy
from turngym.sandboxes.grading import GradedTask, Grader, Verdict
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.opening import DEFAULT, open_backend
from turngym.sandboxes.protocols import Backend, Sandbox

AT_ONCE: Final = 64
"""The most sandboxes that one service lends at the same time."""
WAIT_S: Final = 60.0
"""Seconds that a taker waits for a sandbox to become free."""


class SandboxService:
    """Lends sandboxes of one backend, a bounded number at once, and grades with it.

    Args:
        spec: which backend, as `open_backend` reads it.
        allow_weaker: accept a backend that does not hold untrusted code in. Whoever says so trusts the code.

    Nothing is started before the first use.
    """

    def __init__(self, spec: str = DEFAULT, *, allow_weaker: bool = False) -> None:
        self.spec = spec
        self.allow_weaker = allow_weaker
        self._opening: asyncio.Task[tuple[Backend, Grader]] | None = None
        self._room: asyncio.Semaphore | None = None

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> Sandbox:
        """A fresh sandbox whose verbs can be awaited on any event loop. One that nobody holds any more is closed.

        Raises:
            TooWeak: the backend does not isolate enough here, and `allow_weaker` was not said.
            SandboxBusy: none became free within WAIT_S.
            SandboxUnavailable: the backend cannot make one.
        """
        return await async_bridge.hop(self._create(limits))

    async def grade(self, task: GradedTask, candidate: str, *, stop_at_failure: bool = False) -> Verdict:
        """`Grader.grade` in sandboxes of this backend, which are made and closed for it.

        Raises:
            TooWeak, SandboxError, UnsupportedTest: as there; nothing is said about the candidate.
        """
        return await async_bridge.hop(self._grade(task, candidate, stop_at_failure))

    async def close(self) -> None:
        """Close the backend and every sandbox that it made. The next use opens it again."""
        await async_bridge.hop(self._close())

    async def _create(self, limits: Limits) -> Sandbox:
        backend, _ = await self._opened()
        if self._room is None:
            self._room = asyncio.Semaphore(AT_ONCE)
        room = self._room
        try:
            async with asyncio.timeout(WAIT_S):
                await room.acquire()
        except TimeoutError:
            raise SandboxBusy(f"no sandbox became free within {WAIT_S:g} s: {AT_ONCE} are in use") from None
        try:
            sandbox = await backend.create(limits)
        except BaseException:
            room.release()
            raise
        return cast(Sandbox, _Lent(sandbox, room))

    async def _grade(self, task: GradedTask, candidate: str, stop_at_failure: bool) -> Verdict:
        _, grader = await self._opened()
        return await grader.grade(task, candidate, stop_at_failure=stop_at_failure)

    async def _opened(self) -> tuple[Backend, Grader]:
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(self._opening)
        except BaseException:
            if self._opening is not None and self._opening.done():
                self._opening = None  # the next use tries again
            raise

    async def _open(self) -> tuple[Backend, Grader]:
        backend = open_backend(self.spec)
        try:
            if not self.allow_weaker:
                (await backend.capabilities()).require(UNTRUSTED)
        except BaseException:
            await backend.close()
            raise
        return backend, Grader(backend)

    async def _close(self) -> None:
        opening, self._opening = self._opening, None
        if opening is not None:
            with suppress(Exception):  # it never opened: there is nothing to close
                backend, _ = await opening
                await backend.close()


class _Lent:
    """A sandbox or session of the background loop; each verb hops over to it.

    Written once for all verbs: `Sandbox` and `Session` say what they are.
    """

    def __init__(self, inner: Any, room: asyncio.Semaphore | None = None) -> None:
        self._inner = inner
        # Runs once: at `close`, or when nobody holds the sandbox any more.
        self._leave = (
            weakref.finalize(self, _give_back, inner, room, os.getpid()) if room is not None else None
        )
        if self._leave is not None:
            self._leave.atexit = False  # the service closes its backend then

    @property
    def limits(self) -> Limits:
        limits: Limits = self._inner.limits
        return limits

    def __getattr__(self, verb: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._inner, verb)

        async def call(*arguments: Any, **named: Any) -> Any:
            return await async_bridge.hop(method(*arguments, **named))

        return call

    async def session(self) -> _Lent:
        return _Lent(await async_bridge.hop(self._inner.session()))

    async def close(self) -> None:
        await async_bridge.hop(self._inner.close())
        if self._leave is not None:
            self._leave()

    async def __aenter__(self) -> _Lent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _give_back(inner: Any, room: asyncio.Semaphore, owner: int) -> None:
    """Free a sandbox's place, and the sandbox if it is still there."""

    async def leave() -> None:
        await inner.close()
        room.release()

    if os.getpid() == owner:  # a forked child holds copies of what is not its own
        async_bridge.submit(leave())


_services: dict[tuple[str, bool], SandboxService] = {}
_lock = threading.Lock()


def sandbox_service(spec: str = DEFAULT, *, allow_weaker: bool = False) -> SandboxService:
    """The process's service of a backend; it is closed when the process ends."""
    with _lock:
        key = (spec, allow_weaker)
        if key not in _services:
            _services[key] = SandboxService(spec, allow_weaker=allow_weaker)
        return _services[key]


def close_services() -> None:
    """Close every backend that services of this process have opened. Safe to call at any time."""
    with _lock:
        services = list(_services.values())
    for service in services:
        async_bridge.run(service.close())


def _forget() -> None:
    # A forked child must not end its parent's sandboxes, and its background loop is a new one.
    global _lock
    _lock = threading.Lock()
    _services.clear()


os.register_at_fork(after_in_child=_forget)
atexit.register(close_services)
