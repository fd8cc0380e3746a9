"""Requests to a sandbox server that are answered once: whatever breaks on the way is asked again with the same key."""

from __future__ import annotations

import asyncio
import random
import ssl
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from turngym.sandboxes.errors import SandboxBusy, SandboxError, SandboxUnavailable
from turngym.sandboxes.server.messages import raise_error
from turngym.sandboxes.server.wire import (
    CONTENT_TYPE,
    KEY_HEADER,
    WAIT_HEADER,
    WireError,
    decode,
    encode,
)

_WAIT_S: Final = 20.0
_GRACE_S: Final = 20.0
_KEEP_ALIVE: Final = 64
_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0
_AWAY: Final = frozenset({502, 503, 504})


class Unreachable(SandboxUnavailable):
    """There is no sandbox server, or none any more."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and how it knows that it is us."""

    url: str
    token: str = field(repr=False)
    """Empty where none is needed."""
    ca_file: str | None
    connect_s: float

    def options(self) -> dict[str, Any]:
        """Arguments of a client of httpx. The environment's proxies are not for sandboxes.

        Raises:
            SandboxUnavailable: the file of the authority cannot be used.
        """
        try:
            secure = self.url.startswith("https") and ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            raise SandboxUnavailable(f"{self.ca_file} holds no usable certificates: {error}") from error
        return {
            "base_url": self.url,
            "headers": {"content-type": CONTENT_TYPE}
            | ({"authorization": f"Bearer {self.token}"} if self.token else {}),
            "verify": secure,
            "timeout": httpx.Timeout(_WAIT_S + _GRACE_S, connect=self.connect_s, pool=None),
            "limits": httpx.Limits(max_connections=None, max_keepalive_connections=_KEEP_ALIVE),
            "trust_env": False,
        }


class Link:
    """Speaks to one server, from any number of event loops.

    Args:
        address: of the server.
        retry_s: how long a server that does not answer is asked again.
        busy_s: how long one that has no room is asked again.
    """

    def __init__(self, address: Address, *, retry_s: float, busy_s: float) -> None:
        self._address = address
        self._options = address.options()
        self._retry_s = retry_s
        self._busy_s = busy_s
        # Connections belong to the loop that opened them.
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    async def ask(
        self,
        method: str,
        path: str,
        values: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        retry_s: float | None = None,
    ) -> dict[str, Any]:
        """Ask until there is an answer.

        Args:
            method: of HTTP.
            path: below the server's address.
            values: the request's.
            key: the call's idempotency key.
            retry_s: instead of the usual time.

        Raises:
            Unreachable: there is no such server.
            SandboxUnavailable: it does not take the token.
            SandboxBusy: it had no room in time.
            SandboxError: or whatever else it reports.
        """
        body = b"" if values is None else encode(values)
        headers = {WAIT_HEADER: f"{_WAIT_S:g}"} | ({KEY_HEADER: key} if key else {})
        away = _Patience(self._retry_s if retry_s is None else retry_s)
        busy = _Patience(self._busy_s)
        while True:
            try:
                response = await self._client().request(method, path, content=body, headers=headers)
            except httpx.TransportError as error:
                why = f"{type(error).__name__}: {error}".removesuffix(": ")
                if not await away.pause():
                    raise Unreachable(
                        f"the sandbox server at {self._address.url} cannot be reached ({why})"
                    ) from error
                continue
            status = response.status_code
            if status in _AWAY:
                if not await away.pause():
                    raise Unreachable(f"the sandbox server at {self._address.url} is not there ({status})")
            elif status == 429:
                if not await busy.pause(_seconds(response)):
                    raise SandboxBusy(_reason(response) or "the sandbox server has no room")
            elif status == 202:
                body = b"" if key else body  # the call runs: its key is enough
                away.anew()
                busy.anew()
            else:
                return self._values(response)

    async def close(self) -> None:
        """Close the connections of this event loop; those of loops that have ended are gone with them."""
        for loop, client in list(self._clients.items()):
            if loop is asyncio.get_running_loop():
                await client.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(client.aclose(), loop)
        self._clients.clear()

    def _client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = httpx.AsyncClient(**self._options)
        return client

    def _values(self, response: httpx.Response) -> dict[str, Any]:
        try:
            values = decode(response.content)
        except WireError:
            raise Unreachable(
                f"at {self._address.url} is no sandbox server: it answered {response.status_code} and no body of ours"
            ) from None
        if response.status_code == 401:
            raise SandboxUnavailable(
                f"the sandbox server at {self._address.url} does not take "
                + ("this token" if self._address.token else "requests without a token")
            )
        if response.status_code != 200:
            raise_error(values)
        return values


class _Patience:
    """Pauses that grow, with jitter, until the time is up."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.anew()

    def anew(self) -> None:
        """All is well; the time begins with the next pause."""
        self._deadline: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    async def pause(self, at_least_s: float = 0.0) -> bool:
        """Wait a little; False if the time is up."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            return False
        jittered_s = at_least_s + self._pause_s * random.uniform(0.5, 1.5)
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        await asyncio.sleep(min(left_s, jittered_s))
        return True


def _seconds(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), 60.0) if text.isdigit() else 0.0


def _reason(response: httpx.Response) -> str:
    try:
        raise_error(decode(response.content))
    except (SandboxError, ValueError, TypeError) as error:
        return str(error)
