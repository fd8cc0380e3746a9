"""Sandbox servers for tests: in this process, or in one of their own that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from turngym.sandboxes.backends.namespace import NamespaceBackend
from turngym.sandboxes.backends.remote import RemoteBackend, RemoteConfig
from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.protocols import Backend
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.serving import serve

PROGRAM = """
import asyncio, json, sys
from turngym.sandboxes.backends.namespace import NamespaceBackend
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.serving import serve

async def main():
    backend = NamespaceBackend()
    try:
        config = ServeConfig(**json.loads(sys.argv[1]))
        await serve(backend, config, ready=lambda url: print(url, flush=True))
        print("ended", flush=True)
    finally:
        await backend.close()

asyncio.run(main())
"""


def need_namespaces() -> None:
    """Skip the test where there are none, or fail it where TURNGYM_REQUIRE names `namespace`."""

    async def attempt() -> None:
        backend = NamespaceBackend()
        try:
            async with await backend.create() as sandbox:
                await sandbox.exec(["true"])
        finally:
            await backend.close()

    try:
        asyncio.run(attempt())
    except SandboxUnavailable as error:
        if "namespace" in re.findall(r"\w+", os.environ.get("TURNGYM_REQUIRE", "")):
            pytest.fail(str(error))
        pytest.skip(str(error))


@contextlib.asynccontextmanager
async def served(backend: Backend, **config: Any) -> AsyncIterator[str]:
    """Address of a server in this process; images are taken from `config`."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    images = config.pop("images", None)
    task = asyncio.create_task(
        serve(backend, ServeConfig(**{"port": 0, **config}), images=images, ready=address.set_result)
    )
    await asyncio.wait({task, address}, return_when=asyncio.FIRST_COMPLETED)
    if not address.done():
        task.result()
    try:
        yield address.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@contextlib.asynccontextmanager
async def client(url: str, **config: Any) -> AsyncIterator[RemoteBackend]:
    backend = RemoteBackend(RemoteConfig(url=url, **config))
    try:
        yield backend
    finally:
        await backend.close()


class ServerProcess:
    """A server with namespaces in a process of its own."""

    def __init__(self, **config: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps({"port": 0, **config})],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def commands(self) -> list[str]:
        """Command lines of everything that runs below the server."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                found.append(" ".join(child.cmdline()))
        return found

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextlib.contextmanager
def server_process(**config: Any) -> Iterator[ServerProcess]:
    server = ServerProcess(**config)
    try:
        yield server
    finally:
        server.end()


async def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it never came to be"
        await asyncio.sleep(0.02)
