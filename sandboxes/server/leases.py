"""Sandboxes that live as long as somebody says so: each has a lease, and one that runs out ends its sandbox."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Final

from turngym.sandboxes.errors import SandboxBusy, SandboxError, SandboxLost, SandboxUnavailable
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.protocols import Backend, Sandbox, Session
from turngym.sandboxes.server.calls import Calls
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.messages import Create

_LOG = logging.getLogger(__name__)
_TICK_S: Final = 0.25
MAX_SESSIONS: Final = 64
"""Names of interpreters that one sandbox remembers."""


class Stopping(SandboxUnavailable):
    """The server makes no sandboxes any more; another one may."""


class Held:
    """One sandbox that is lent, from the moment it is asked for."""

    def __init__(self, order: Create, making: asyncio.Task[Sandbox]) -> None:
        self.order = order
        self.making = making
        self.sessions: dict[str, Session] = {}
        self.expires = 0.0
        self.renew()

    def renew(self) -> None:
        """A sign of life: the lease begins anew."""
        self.expires = time.monotonic() + self.order.lease_s


class Leases:
    """All sandboxes that are lent.

    Args:
        backend: makes them.
        images: backends that a client may choose by name instead; there are no others.
        config: the maxima.
        calls: ended with their sandbox.
    """

    def __init__(
        self, backend: Backend, images: Mapping[str, Backend], config: ServeConfig, calls: Calls
    ) -> None:
        self._backend = backend
        self._images = images
        self._config = config
        self._calls = calls
        self._held: dict[str, Held] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._held) + len(self._ending)

    async def create(self, name: str, order: Create, wait_s: float) -> bool:
        """Make a sandbox, or wait for the one of this name; False if it is not ready yet.

        Raises:
            ValueError: more is asked for than the server gives, or the name is another sandbox's.
            SandboxBusy: there are as many as the server gives.
            SandboxUnavailable: it cannot be made here.
        Stopping: the server is.
        """
        held = self._held.get(name)
        if held is None:
            held = self._begin(name, order)
        elif held.order != order:
            raise ValueError("another sandbox has this id")
        held.renew()
        await asyncio.wait({held.making}, timeout=wait_s)
        if not held.making.done():
            return False
        error = held.making.exception()
        if error is not None:
            if self._held.get(name) is held:
                del self._held[name]
            raise error
        return True

    def find(self, name: str) -> Held:
        """A sandbox that is ready; its lease begins anew.

        Raises:
            SandboxLost: there is none.
        """
        held = self._held.get(name)
        if held is None or not held.making.done() or held.making.exception() is not None:
            raise SandboxLost(
                "the sandbox is gone: its lease ran out, it was closed, or the server was restarted"
            )
        held.renew()
        return held

    def renew(self, names: list[str], dropped: list[str]) -> None:
        """Begin leases anew; begin to end those that nobody wants any more."""
        for name in names:
            if name in self._held:
                self._held[name].renew()
        for name in dropped:
            self._begin_end(name)

    async def close(self, name: str) -> None:
        """End a sandbox and its calls; returns when it is gone. Nothing happens if there is none."""
        task = self._begin_end(name)
        if task is not None:
            await asyncio.shield(task)

    async def close_all(self) -> None:
        """Make no more, and end all."""
        self._stopping = True
        for name in list(self._held):
            self._begin_end(name)
        if self._ending:
            await asyncio.wait(set(self._ending))

    async def reap(self) -> None:
        """End sandboxes whose lease runs out, for ever."""
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            for name in [name for name, held in self._held.items() if held.expires < now]:
                _LOG.warning("a sandbox's lease ran out")
                self._begin_end(name)

    def check(self, limits: Limits) -> None:
        """Refuse limits above the server's maxima.

        Raises:
            ValueError: names each of them.
        """
        asked, most = limits.model_dump(), self._config.most.model_dump()
        over = [f"{name} {asked[name]} (at most {most[name]})" for name in asked if asked[name] > most[name]]
        if over:
            raise ValueError(f"the sandbox server does not give so much: {', '.join(over)}")

    def _begin(self, name: str, order: Create) -> Held:
        if self._stopping:
            raise Stopping("the sandbox server is stopping")
        self.check(order.limits)
        if order.lease_s > self._config.max_lease_s:
            raise ValueError(f"a lease of {order.lease_s:g} s: the most is {self._config.max_lease_s:g}")
        if order.image is not None and order.image not in self._images:
            names = ", ".join(sorted(self._images)) or "none"
            raise ValueError(f"the sandbox server does not offer this image; it offers: {names}")
        if len(self) >= self._config.max_sandboxes:
            raise SandboxBusy(f"all {self._config.max_sandboxes} sandboxes of the server are taken")
        backend = self._backend if order.image is None else self._images[order.image]
        held = self._held[name] = Held(order, asyncio.create_task(backend.create(order.limits)))
        return held

    def _begin_end(self, name: str) -> asyncio.Task[None] | None:
        held = self._held.pop(name, None)
        if held is None:
            return None
        task = asyncio.create_task(self._end(name, held))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _end(self, name: str, held: Held) -> None:
        # A sandbox that is being made is never broken off half-way: it is ended once it is there.
        await self._calls.end(name)
        try:
            await (await held.making).close()
        except SandboxError as error:
            _LOG.warning("a sandbox did not end in order: %s", error)
        except Exception:  # noqa: BLE001 (the rest must end all the same)
            _LOG.exception("a sandbox did not end in order")
