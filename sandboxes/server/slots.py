"""How many calls run at once, with a short queue before the door."""

from __future__ import annotations

import asyncio

from turngym.sandboxes.errors import SandboxBusy


class Slots:
    """Counts running calls.

    Args:
        count: the most at once.
        queue_s: how long a further one waits.
    """

    def __init__(self, count: int, queue_s: float) -> None:
        self._count = count
        self._queue_s = queue_s
        self._free = asyncio.Semaphore(count)
        self.taken = 0
        """How many run."""

    async def take(self) -> None:
        """Begin one.

        Raises:
            SandboxBusy: none ended in time.
        """
        try:
            async with asyncio.timeout(self._queue_s):
                await self._free.acquire()
        except TimeoutError:
            raise SandboxBusy(
                f"all {self._count} calls that the sandbox server runs at once are taken"
            ) from None
        self.taken += 1

    def free(self) -> None:
        """End one."""
        self.taken -= 1
        self._free.release()
