"""The host's end of a supervisor's channel: frames over a socket, awaited, each with a deadline."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

from turngym.sandboxes.errors import SandboxLost
from turngym.sandboxes.inside.wire import MAX_FRAME, WireError, decode, pack_frame

_CHUNK = 1 << 18
_SEND_S = 60.0


class EndedForMemory(SandboxLost):
    """The kernel ended the supervisor itself for want of memory."""


class HostChannel:
    """One socket to one supervisor; closed for good by the first thing that goes wrong on it.

    Args:
        link: a connected stream socket; the channel owns it.
    """

    def __init__(self, link: socket.socket) -> None:
        link.setblocking(False)
        self._link = link
        self.oom_kills: Callable[[], int] | None = None
        """How many processes of the sandbox the kernel has ended for want of memory; None where nobody counts."""
        self._oom_kills = 0
        self._buffer = bytearray()
        self._users = 0
        self.closed = False
        """True once it is of no use any more."""

    async def send(self, *frames: Any) -> None:
        """Write frames.

        Raises:
            SandboxLost: the other end is gone, or does not read.
        """
        self._oom_kills = 0 if self.oom_kills is None else self.oom_kills()
        try:
            await self._write(b"".join(pack_frame(frame) for frame in frames))
        except SandboxLost as error:
            raise await self._explained(error) from error.__cause__

    async def receive(self, timeout_s: float) -> Any:
        """The next frame.

        Raises:
            SandboxLost: the other end is gone, silent for `timeout_s`, or sends no frames.
        """
        try:
            return await self._read(timeout_s)
        except SandboxLost as error:
            raise await self._explained(error) from error.__cause__

    async def _explained(self, error: SandboxLost) -> SandboxLost:
        """The error, as one of memory if that is the reason."""
        if not await self._out_of_memory():
            return error
        return EndedForMemory(
            "the sandbox is gone: the kernel ended its first process for want of memory: raise memory_mib"
        )

    async def _out_of_memory(self) -> bool:
        """Whether the kernel has ended somebody for want of memory since the last request."""
        return self.oom_kills is not None and self.oom_kills() > self._oom_kills

    async def _write(self, data: bytes) -> None:
        try:
            with self._in_use():
                async with asyncio.timeout(_SEND_S):
                    await asyncio.get_running_loop().sock_sendall(self._link, data)
        except TimeoutError:
            self.close()
            raise SandboxLost(f"the sandbox's supervisor has not read for {_SEND_S:g} s") from None
        except OSError as error:
            self.close()
            raise SandboxLost(f"the sandbox's supervisor is gone ({error.strerror})") from error
        except asyncio.CancelledError:
            self.close()  # half a frame may be on its way
            raise

    async def _read(self, timeout_s: float) -> Any:
        try:
            with self._in_use():
                async with asyncio.timeout(timeout_s):
                    return await self._frame()
        except TimeoutError:
            self.close()
            raise SandboxLost(f"the sandbox's supervisor has not answered for {timeout_s:g} s") from None
        except WireError as error:
            self.close()
            raise SandboxLost(f"the sandbox's supervisor sent no frame: {error}") from error
        except OSError as error:
            self.close()
            raise SandboxLost(f"the sandbox's supervisor is gone ({error.strerror})") from error
        except (SandboxLost, asyncio.CancelledError):
            self.close()  # after a cancelled wait an answer may still come, to a question that nobody remembers
            raise

    def close(self) -> None:
        """Hang up. Safe to call twice; whoever waits for a frame learns that there will be none."""
        self.closed = True
        with contextlib.suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)
        self._let_go()

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        """Keeps the descriptor while an event loop watches it: it would never report one that was closed."""
        if self.closed:
            raise SandboxLost("the sandbox is gone: its channel is closed")
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._let_go()

    def _let_go(self) -> None:
        if self.closed and not self._users:
            self._link.close()

    async def _frame(self) -> Any:
        while True:
            frame = self._take()
            if frame is not None:
                return frame
            data = await asyncio.get_running_loop().sock_recv(self._link, _CHUNK)
            if not data:
                raise SandboxLost("the sandbox's supervisor is gone")
            self._feed(data)

    def _feed(self, data: bytes) -> None:
        """Take bytes from the socket."""
        self._buffer += data

    def _take(self) -> Any:
        if len(self._buffer) < 4:
            return None
        length = int.from_bytes(self._buffer[:4], "big")
        if length > MAX_FRAME:
            raise WireError(f"a frame of {length} bytes")
        if len(self._buffer) < 4 + length:
            return None
        frame = decode(bytes(self._buffer[4 : 4 + length]))
        del self._buffer[: 4 + length]
        return frame
