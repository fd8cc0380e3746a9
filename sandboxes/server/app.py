"""The server's addresses.

    GET    /v1/health                   is somebody there? Needs no token
    GET    /v1/capabilities[?image=…]   what its sandboxes enforce
    GET    /v1/status                   the maxima, and what is in use
    PUT    /v1/sandboxes/{id}           make one; the client draws the id, so asking again makes no second one
    DELETE /v1/sandboxes/{id}           end one
    POST   /v1/sandboxes/{id}/{verb}    a call, with a key; asking again with the key gets the same answer
    POST   /v1/leases                   which sandboxes are still wanted, and which are not

200 a result · 202 still running: ask again · 401 no token · 404 the sandbox is gone · 413 too large ·
422 an error of the sandbox · 429 too much at once: later · 503 the server is stopping. Bodies: see `wire.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from turngym.sandboxes.errors import (
    FileTooLarge,
    SandboxBusy,
    SandboxError,
    SandboxLost,
    SandboxUnavailable,
)
from turngym.sandboxes.limits import MIB
from turngym.sandboxes.protocols import Backend
from turngym.sandboxes.server import verbs
from turngym.sandboxes.server.calls import Answer, Calls, failure
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.guard import OPEN_PATH, Guard
from turngym.sandboxes.server.leases import Leases, Stopping
from turngym.sandboxes.server.messages import Create, Renew, read_message
from turngym.sandboxes.server.slots import Slots
from turngym.sandboxes.server.wire import CONTENT_TYPE, KEY_HEADER, WAIT_HEADER, WireError, decode, encode

_LOG = logging.getLogger(__name__)
MAX_WAIT_S: Final = 30.0
"""The longest time that a request waits for a call to end."""
_ORDER: Final = MIB // 16
_NAMES: Final = 4 * MIB
_DRAIN_S: Final = 5.0
_ID: Final = re.compile(r"[0-9a-f]{32}")
_STATUS: Final[dict[type[Exception], int]] = {
    WireError: 400,
    SandboxLost: 404,
    FileTooLarge: 413,
    SandboxBusy: 429,
    Stopping: 503,
    SandboxError: 422,
    ValueError: 422,
}
"""First match wins."""


class Service:
    """Answers requests."""

    def __init__(
        self,
        backend: Backend,
        images: Mapping[str, Backend],
        leases: Leases,
        calls: Calls,
        config: ServeConfig,
    ) -> None:
        self._backend = backend
        self._images = images
        self._leases = leases
        self._calls = calls
        self._config = config
        self._slots = Slots(config.max_calls, config.queue_s)

    async def health(self, _request: Request) -> Response:
        """A sign of life."""
        return JSONResponse({"ok": True})

    async def capabilities(self, request: Request) -> Answer:
        """What the sandboxes enforce: the usual ones, or those of an image."""
        image = request.query_params.get("image")
        backend = self._backend if image is None else self._images.get(image)
        if backend is None:
            raise ValueError("the sandbox server does not offer this image")
        found = await backend.capabilities()
        values = {
            "backend": found.backend,
            "enforced": sorted(found.enforced),
            "remedies": found.remedies,
        }
        return Answer(200, encode(values))

    async def status(self, _request: Request) -> Answer:
        """What there is, and what of it is in use."""
        values = {
            "images": sorted(self._images),
            "most": self._config.most.model_dump(),
            "max_lease_s": self._config.max_lease_s,
            "sandboxes": len(self._leases),
            "max_sandboxes": self._config.max_sandboxes,
            "calls": self._slots.taken,
            "max_calls": self._config.max_calls,
        }
        return Answer(200, encode(values))

    async def create(self, request: Request) -> Answer:
        """Make a sandbox."""
        name = _name(request)
        order = read_message(Create, decode(await self._body(request, _ORDER)))
        if not await self._leases.create(name, order, _wait_s(request)):
            return Answer(202, b"")
        return Answer(200, encode({"max_body_bytes": self._config.max_body_mib * MIB}))

    async def close(self, request: Request) -> Answer:
        """End a sandbox."""
        await self._leases.close(_name(request))
        return Answer(200, encode({}))

    async def renew(self, request: Request) -> Answer:
        """Renew leases."""
        order = read_message(Renew, decode(await self._body(request, _NAMES)))
        self._leases.renew(order.sandboxes, order.dropped)
        return Answer(200, encode({}))

    async def call(self, request: Request) -> Answer:
        """Begin a call, or find the one with this key, and wait a while for its answer."""
        name, key, wait_s = _name(request), request.headers.get(KEY_HEADER, ""), _wait_s(request)
        if not _ID.fullmatch(key):
            raise WireError(f"the header {KEY_HEADER} holds a key of 32 hexadecimal digits")
        self._leases.find(name)
        found = self._calls.find(name, key) or await self._begin(request, name, key)
        if isinstance(found, Answer):
            return found
        await asyncio.wait({found}, timeout=wait_s)
        if not found.done():
            return Answer(202, b"")
        if found.cancelled():
            return failure(SandboxLost("the sandbox was closed while it ran this call"), 404)
        return found.result()

    async def _begin(self, request: Request, name: str, key: str) -> asyncio.Task[Answer] | Answer:
        verb = request.path_params["verb"]
        if verb not in verbs.VERBS:
            raise WireError("there is no such call")
        await self._slots.take()
        try:
            values = decode(await self._body(request, self._config.max_body_mib * MIB))
            # While the body came in, the sandbox may have ended, and the same call may have begun.
            held = self._leases.find(name)
            found = self._calls.find(name, key)
        except BaseException:
            self._slots.free()
            raise
        if found is not None:
            self._slots.free()
            return found
        call = verbs.Call(held, held.making.result(), self._leases, key, self._config.max_file_mib * MIB)
        return self._calls.start(name, key, verbs.perform(verb, call, values), self._slots.free)

    async def _body(self, request: Request, max_bytes: int) -> bytes:
        """A request's body.

        Raises:
            FileTooLarge: it is larger than `max_bytes`; no more than that was read.
            TimeoutError: it does not come.
        """
        declared = request.headers.get("content-length", "0")
        if not declared.isdigit() or int(declared) > max_bytes:
            raise _too_large(max_bytes)
        parts: list[bytes] = []
        room = max_bytes
        async with asyncio.timeout(self._config.body_s):
            async for part in request.stream():
                room -= len(part)
                if room < 0:
                    raise _too_large(max_bytes)
                parts.append(part)
        return b"".join(parts)


Handler = Callable[[Request], Awaitable[Answer]]


def endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """A handler as Starlette calls it: answers and errors become responses."""

    async def respond(request: Request) -> Response:
        headers = {"content-type": CONTENT_TYPE}
        try:
            answer = await handler(request)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:  # noqa: BLE001 (every error is an answer)
            answer = _refusal(error)
        if answer.status in (413, 429):
            headers["retry-after"] = "1"
            await _drain(request)
        return Response(answer.body, answer.status, headers)

    return respond


def make_app(service: Service, token: str | None) -> ASGIApp:
    """The application.

    Args:
        service: answers.
        token: what clients must show; None lets everybody in who calls loopback by its name.
    """

    def route(path: str, handler: Handler, method: str) -> Route:
        return Route(path, endpoint(handler), methods=[method])

    app = Starlette(
        routes=[
            Route(OPEN_PATH, service.health),
            route("/v1/capabilities", service.capabilities, "GET"),
            route("/v1/status", service.status, "GET"),
            route("/v1/sandboxes/{id}", service.create, "PUT"),
            route("/v1/sandboxes/{id}", service.close, "DELETE"),
            route("/v1/sandboxes/{id}/{verb}", service.call, "POST"),
            route("/v1/leases", service.renew, "POST"),
        ]
    )
    refusal = failure(SandboxUnavailable("the sandbox server does not take this token"), 401)
    return Guard(app, token, refusal)


def _refusal(error: Exception) -> Answer:
    if isinstance(error, TimeoutError):
        return failure(WireError("the request's body did not come in time"), 408)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    if status == 500:
        _LOG.error("a request failed", exc_info=error)
    return failure(error, status)


def _too_large(max_bytes: int) -> FileTooLarge:
    return FileTooLarge(f"the request is larger than the sandbox server takes ({max_bytes} bytes)")


def _name(request: Request) -> str:
    name: str = request.path_params["id"]
    if not _ID.fullmatch(name):
        raise WireError("a sandbox's id has 32 hexadecimal digits")
    return name


def _wait_s(request: Request) -> float:
    try:
        return min(MAX_WAIT_S, max(0.0, float(request.headers.get(WAIT_HEADER, MAX_WAIT_S))))
    except ValueError:
        return MAX_WAIT_S


async def _drain(request: Request) -> None:
    """Read a refused body and forget it, so that the client is done with sending when the answer comes."""
    with contextlib.suppress(ClientDisconnect, RuntimeError, TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            async for _ in request.stream():
                pass
