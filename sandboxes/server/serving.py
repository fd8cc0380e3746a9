"""Starts the server, and ends it in order: a signal first ends every sandbox, then the connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.limits import MIB
from turngym.sandboxes.protocols import Backend
from turngym.sandboxes.server.calls import Calls
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.leases import Leases

try:
    import uvicorn

    from turngym.sandboxes.server.app import Service, make_app
except ModuleNotFoundError as error:
    raise SandboxUnavailable(f'a sandbox server needs {error.name}: pip install "turngym[serve]"') from error

_LOG = logging.getLogger(__name__)
_BACKLOG: Final = 512
_LAST_ANSWERS_S: Final = 5


async def serve(
    backend: Backend,
    config: ServeConfig | None = None,
    *,
    images: Mapping[str, Backend] | None = None,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Lend sandboxes until SIGTERM or SIGINT, or until this is cancelled. Every sandbox has ended when it returns.

    Args:
        backend: makes the sandboxes; it stays the caller's to close.
        config: where, for whom and how much.
        images: further backends that a client may choose by name; there is no other choice.
        ready: called with the address once the server listens.

    Raises:
        Misuse: it would listen to other machines without a token, or the token is no good.
        SandboxUnavailable: the address cannot be listened on, or the certificate cannot be used.
    """
    config = config or ServeConfig()
    token = config.token()
    calls = Calls(config.answers_mib * MIB)
    leases = Leases(backend, images or {}, config, calls)
    service = Service(backend, images or {}, leases, calls, config)
    door = _listen(config)
    try:
        server = _server(service, config, token)
        host, port = door.getsockname()[:2]
        scheme = "https" if config.tls_certificate else "http"
        if scheme == "http" and not config.loopback:
            _LOG.warning(
                "without TLS the token can be read on the way: set a certificate, or let a proxy do it"
            )
        if ready is not None:
            ready(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        await _run(server, leases, door)
    finally:
        door.close()


async def _run(server: uvicorn.Server, leases: Leases, door: socket.socket) -> None:
    stop = asyncio.Event()
    with _signals(stop):
        serving = asyncio.create_task(server.serve(sockets=[door]))
        reaping = asyncio.create_task(leases.reap())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            reaping.cancel()
            stopping.cancel()
            await asyncio.shield(_end(server, serving, leases))
    serving.result()


async def _end(server: uvicorn.Server, serving: asyncio.Task[None], leases: Leases) -> None:
    """Sandboxes first: their calls end, and the clients that wait for them hear of it."""
    await leases.close_all()
    server.should_exit = True
    await asyncio.wait({serving})
    await leases.close_all()


def _server(service: Service, config: ServeConfig, token: str | None) -> uvicorn.Server:
    try:
        settings = uvicorn.Config(
            make_app(service, token),
            ssl_certfile=config.tls_certificate,
            ssl_keyfile=config.tls_key,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            limit_concurrency=4 * (config.max_sandboxes + config.max_calls) + 64,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=_LAST_ANSWERS_S,
            ws="none",
        )
        settings.load()
    except (OSError, ValueError) as error:
        raise SandboxUnavailable(f"the certificate or its key cannot be used: {error}") from error
    return uvicorn.Server(settings)


def _listen(config: ServeConfig) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
        family, kind, protocol, _, address = found[0]
        # asyncio switches delays of small packets off only where the protocol is named.
        door = socket.socket(family, kind, protocol)
        try:
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            door.bind(address)
            door.listen(_BACKLOG)
        except BaseException:
            door.close()
            raise
    except OSError as error:
        raise SandboxUnavailable(f"cannot listen on {config.host}, port {config.port}: {error}") from error
    return door


@contextlib.contextmanager
def _signals(stop: asyncio.Event) -> Iterator[None]:
    """Signals set the event; outside of the main thread there are none."""
    loop = asyncio.get_running_loop()
    names = (signal.SIGTERM, signal.SIGINT)
    with contextlib.suppress(ValueError, RuntimeError):
        for name in names:
            loop.add_signal_handler(name, stop.set)
    try:
        yield
    finally:
        for name in names:
            loop.remove_signal_handler(name)
