"""Keeps the leases of living sandboxes, from a thread: a program that computes for minutes keeps its sandboxes.

The thread dies with its process, however that dies; the server then ends what nobody renews.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections import deque
from typing import Any, Final

import httpx

from turngym.sandboxes.client.link import Address
from turngym.sandboxes.server.wire import encode

_PARTS: Final = 4


class Renewal:
    """Renews what is registered, and ends what was dropped without being closed.

    Args:
        address: of the server.
        lease_s: how long one renewal lasts.
    """

    def __init__(self, address: Address, lease_s: float) -> None:
        self._address = address
        self._period_s = lease_s / _PARTS
        self._living: dict[str, weakref.ref[Any]] = {}
        self._dropped: deque[str] = deque()
        self._wake = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, name: str, sandbox: object) -> None:
        """Renew a sandbox's lease until it is removed, or nobody holds it any more."""
        self._living[name] = weakref.ref(sandbox, lambda _: self.drop(name))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="turngym-leases", daemon=True)
            self._thread.start()

    def remove(self, name: str) -> None:
        """Renew no more: it was closed."""
        self._living.pop(name, None)

    def drop(self, name: str) -> None:
        """Renew no more, and have it ended."""
        self._living.pop(name, None)
        self._dropped.append(name)  # appending is atomic: this may run in the midst of a garbage collection
        self._wake.set()

    def stop(self) -> None:
        """Let the thread end after its last message. Safe to call twice, and from anywhere."""
        self._stopped = True
        self._wake.set()

    def join(self) -> None:
        """Wait for the thread's end."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with httpx.Client(**self._address.options()) as client:
            while not self._stopped:
                self._wake.wait(self._period_s)
                self._wake.clear()
                dropped = list(self._dropped)
                living = [] if self._stopped else list(self._living)
                # A server that is away is told in the next round; a lease lasts for several.
                with contextlib.suppress(httpx.HTTPError):
                    if living or dropped:
                        told = client.post(
                            "/v1/leases", content=encode({"sandboxes": living, "dropped": dropped})
                        )
                        if told.status_code == 200:
                            for _ in dropped:
                                self._dropped.popleft()
