"""The host's end of a container's standard streams: frames of the supervisor, and what it says on stderr.

The engine sends both outputs over one connection in pieces, each after eight bytes: which stream, three zeros,
and the piece's length. Pieces and headers arrive cut at any place.

Source: Docker Engine API, "Attach to a container", stream format.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from turngym.sandboxes.host.channel import HostChannel
from turngym.sandboxes.inside.wire import WireError

_HEADER: Final = 8
_STDOUT: Final = 1
_LOG_BYTES: Final = 4000


class Streams:
    """Takes the engine's bytes apart."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0
        self._stream = 0
        self.log = b""
        """The end of what came on other streams than standard output."""

    def feed(self, data: bytes) -> bytes:
        """The standard output in some bytes.

        Raises:
            WireError: they are not of this format.
        """
        found = []
        view = memoryview(data)
        while view:
            if not self._left:
                view = self._take_header(view)
                continue
            piece, view = view[: self._left], view[self._left :]
            self._left -= len(piece)
            if self._stream == _STDOUT:
                found.append(piece)
            else:
                self.log = (self.log + piece)[-_LOG_BYTES:]
        return b"".join(found)

    def _take_header(self, view: memoryview) -> memoryview:
        missing = _HEADER - len(self._head)
        self._head += view[:missing]
        if len(self._head) == _HEADER:
            if self._head[0] > 3 or any(self._head[1:4]):
                raise WireError("the container engine's stream is damaged")
            self._stream, self._left = self._head[0], int.from_bytes(self._head[4:], "big")
            self._head.clear()
        return view[missing:]


class AttachChannel(HostChannel):
    """A channel to the supervisor in a container.

    Args:
        link: the attached connection.
        ended_for_memory: tells whether the container died for want of memory since a time, in seconds of the epoch.
    """

    def __init__(self, link: socket.socket, ended_for_memory: Callable[[float], Awaitable[bool]]) -> None:
        super().__init__(link)
        self._streams = Streams()
        self._ended_for_memory = ended_for_memory
        self._asked_at = time.time()

    @property
    def log(self) -> str:
        """The end of what the supervisor had to say about itself."""
        return self._streams.log.decode("utf-8", "replace").strip()

    async def send(self, *frames: Any) -> None:
        """Write frames (see `HostChannel.send`)."""
        self._asked_at = time.time()
        await super().send(*frames)

    async def _out_of_memory(self) -> bool:
        return await self._ended_for_memory(self._asked_at)

    def _feed(self, data: bytes) -> None:
        super()._feed(self._streams.feed(data))
