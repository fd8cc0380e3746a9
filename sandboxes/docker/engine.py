"""The connection to a container engine: Docker's, or Podman's socket. It never blocks the event loop.

A client of docker-py is not made for many threads, so each thread has its own, and every call has a deadline.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from turngym.sandboxes.docker.config import DockerConfig
from turngym.sandboxes.errors import SandboxUnavailable

T = TypeVar("T")

DISK_LABEL: Final = "turngym.disk"
"""An image says with it (`one`) that its /tmp and /var/tmp are links into the sandbox's disk."""
MISSING: Final = 'the docker backend needs the package docker: pip install "turngym[docker]"'

_USUAL: Final = "unix:///var/run/docker.sock"
_THREADS: Final = 8
_EVENTS_S: Final = 1.0
_REMOVE_S: Final = 10.0
_MACHINES: Final = {"amd64": "x86_64", "arm64": "aarch64"}  # as Podman names them


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says about itself and about the image."""

    machine: str
    """Kind of processor."""
    is_podman: bool
    maps_users: bool
    """True if user ids are mapped (rootless, or userns-remap): the small ones alone exist inside."""
    bounds_memory: bool
    """True if the kernel's memory group is at the engine's disposal."""
    image: str
    """Identity of the image."""
    has_links: bool
    """True if the image's /tmp leads into the sandbox's disk."""
    volumes: tuple[str, ...]
    """Folders for which the image asks a writable volume."""


class Engine:
    """Runs functions with a client, in threads of its own.

    Args:
        address: of the engine; None for what the environment says.
        timeout_s: how long one answer may take.
    """

    def __init__(self, address: str | None = None, timeout_s: float = 60.0) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="turngym-docker")
        self._own = threading.local()
        self._clients: list[Any] = []

    async def call(self, ask: Callable[[Any], T]) -> T:
        """What `ask(client)` returns.

        Raises:
            SandboxUnavailable: there is no engine, or it refuses; the message says what would help.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.ask, ask)

    def ask(self, ask: Callable[[Any], T]) -> T:
        """The same in the calling thread, which waits."""
        try:
            import docker.errors
            import requests
        except ImportError as error:
            raise SandboxUnavailable(MISSING) from error
        try:
            client = getattr(self._own, "client", None)
            if client is None:
                client = self._own.client = self._connect()
            return ask(client)
        except docker.errors.APIError as error:
            raise SandboxUnavailable(f"the container engine refuses: {error.explanation or error}") from error
        except docker.errors.DockerException as error:
            raise SandboxUnavailable(self._absent(self._address or "DOCKER_HOST", error)) from error
        except requests.exceptions.RequestException as error:
            raise SandboxUnavailable(f"the container engine does not answer: {error}") from error

    def close(self) -> None:
        """End the threads, once their calls are done, and the connections. Safe to call twice."""
        self._threads.shutdown()
        while self._clients:
            self._clients.pop().close()

    def _connect(self) -> Any:
        import docker

        where = docker.utils.kwargs_from_env()
        if self._address:
            where = {"base_url": self._address}
        self._knock(where.get("base_url") or _USUAL)
        # One thread asks one thing at a time: more connections than one would only lie idle, some twenty of them.
        client = docker.APIClient(version="auto", timeout=self._timeout_s, max_pool_size=1, **where)
        self._clients.append(client)
        return client

    def _knock(self, address: str) -> None:
        """Tell a missing, a dead and a forbidden socket apart, which the client's errors do not."""
        path = re.sub("^(http[+])?unix:/*", "/", address)
        if path == address:
            return
        try:
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(self._timeout_s)
                link.connect(path)
        except PermissionError as error:
            raise SandboxUnavailable(
                f"this user may not talk to the container engine at {path}: join the group `docker` (which is as "
                "good as root), run a rootless engine, or use the backend `namespace`"
            ) from error
        except OSError as error:
            raise SandboxUnavailable(self._absent(path, error)) from error

    def _absent(self, where: str, error: Exception) -> str:
        return (
            f"no container engine answers at {where}: start one (`systemctl start docker`, or "
            "`scripts/docker_engine.sh` as root on Debian), or let DOCKER_HOST name its socket (Podman: "
            f"`podman system service`, unix:///run/user/UID/podman/podman.sock). {error}"
        )


def look(client: Any, config: DockerConfig) -> Facts:
    """Find out about the engine and the image.

    Raises:
        SandboxUnavailable: there is no such image or runtime.
    """
    import docker.errors

    info = client.info()
    if config.runtime and config.runtime not in info.get("Runtimes", {}):
        raise SandboxUnavailable(
            f"the container engine has no runtime {config.runtime!r}; it has "
            f"{', '.join(sorted(info.get('Runtimes', {})))}: install it, and name it in the engine's daemon.json"
        )
    try:
        image = client.inspect_image(config.image)
    except docker.errors.ImageNotFound as error:
        raise SandboxUnavailable(
            f"the container engine has no image {config.image!r}, and none is ever pulled: build one with "
            f"`docker build -t {config.image} sandboxes/docker` (or `scripts/docker_engine.sh` as root on Debian), or "
            "name another with `image`, such as python:3.12-slim once you have pulled it"
        ) from error
    settings = image.get("Config") or {}
    options = " ".join(info.get("SecurityOptions") or [])
    return Facts(
        machine=_MACHINES.get(info["Architecture"], info["Architecture"]),
        is_podman=any("podman" in part["Name"].lower() for part in client.version().get("Components") or []),
        maps_users="rootless" in options or "userns" in options,
        bounds_memory=bool(info.get("MemoryLimit")),
        image=image["Id"],
        has_links=(settings.get("Labels") or {}).get(DISK_LABEL) == "one",
        volumes=tuple(settings.get("Volumes") or {}),
    )


def start(client: Any, options: dict[str, Any]) -> socket.socket:
    """Create a container, attach to it, and start it. The socket carries its standard streams."""
    made = client.create_container(**options)
    # `stdin_once`: when this connection ends, however it ends, so does the container's standard input.
    file = client.attach_socket(made["Id"], params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
    try:
        link = _plain(getattr(file, "_sock", file))
    finally:
        getattr(file, "_response", file).close()
        file.close()
    try:
        client.start(made["Id"])
    except BaseException:
        link.close()
        raise
    return link


def remove(client: Any, name: str) -> None:
    """End a container and everything in it; returns when it is gone. It may be gone already, or on its way."""
    import docker.errors

    deadline = time.monotonic() + _REMOVE_S
    while True:
        try:
            client.remove_container(name, v=True, force=True)
        except docker.errors.NotFound:
            return
        except docker.errors.APIError:  # it is removing itself at this moment
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def ended_for_memory(client: Any, name: str, since: float) -> bool:
    """True if a container died after a time, and the kernel killed in it for want of memory.

    A container that removes itself can be inspected no more; the engine's events remember.
    """
    seen: set[str] = set()
    stream = client.events(
        since=f"{since:.3f}",
        until=f"{time.time() + _EVENTS_S:.3f}",
        filters={"container": [name], "event": ["oom", "die"]},
        decode=True,
    )
    try:
        for event in stream:
            seen.add(event.get("Action") or event.get("status") or "")
            if {"oom", "die"} <= seen:
                return True
    finally:
        stream.close()
    return False


def _plain(link: object) -> socket.socket:
    """A socket of our own that the event loop can wait for."""
    if not isinstance(link, socket.socket) or isinstance(link, ssl.SSLSocket):
        raise SandboxUnavailable(
            "containers can be attached to over a Unix or plain TCP socket alone: forward the engine's socket, "
            "for example `ssh -L /tmp/engine.sock:/var/run/docker.sock HOST`"
        )
    return link.dup()
