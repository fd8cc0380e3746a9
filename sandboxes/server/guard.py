"""Who may speak to the server, checked before anything of a request is looked at."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from turngym.sandboxes.server.calls import Answer

OPEN_PATH: Final = "/v1/health"
"""Needs no token: it says no more than that a server is there."""

_LOCAL_NAMES: Final = frozenset({b"localhost", b"127.0.0.1", b"[::1]"})


class Guard:
    """Lets requests with the token pass.

    A server without a token listens on loopback, where web pages in a browser of this machine could reach it by a
    name of their own that leads there: it answers only to loopback's names.
    """

    def __init__(self, app: ASGIApp, token: str | None, refusal: Answer) -> None:
        self._app = app
        self._digest = None if token is None else _digest(b"Bearer " + token.encode("ascii"))
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if (
            scope["type"] == "http"
            and scope["path"] != OPEN_PATH
            and not self._admits(dict(scope["headers"]))
        ):
            refused = Response(
                self._refusal.body, self._refusal.status, headers={"www-authenticate": "Bearer"}
            )
            await refused(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admits(self, headers: dict[bytes, bytes]) -> bool:
        if self._digest is None:
            name, colon, port = headers.get(b"host", b"").rpartition(b":")
            return (name if colon and port.isdigit() else headers.get(b"host", b"")) in _LOCAL_NAMES
        # Digests are of one length, so the comparison tells nothing about the token's.
        return hmac.compare_digest(_digest(headers.get(b"authorization", b"")), self._digest)


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()
