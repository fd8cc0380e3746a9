from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from turngym.sandboxes.errors import SandboxLost, SandboxUnavailable
from turngym.sandboxes.server.config import ServeConfig
from turngym.sandboxes.server.serving import serve

from .scripted import ScriptedBackend
from .served import client, need_namespaces, served, server_process, until

TOKEN = "0123456789abcdef0123"


@pytest.fixture(scope="module")
def namespaces() -> None:
    need_namespaces()


async def test_it_refuses_other_machines_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNGYM_SANDBOX_TOKEN", raising=False)
    with pytest.raises(ValueError, match="needs a token"):
        await serve(ScriptedBackend(), ServeConfig(host="0.0.0.0", port=0))


async def test_a_port_that_is_taken() -> None:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        with pytest.raises(SandboxUnavailable, match="cannot listen"):
            await serve(ScriptedBackend(), ServeConfig(port=door.getsockname()[1]))


async def test_cancelling_ends_every_sandbox() -> None:
    backend = ScriptedBackend()
    async with served(backend) as url, client(url, retry_s=0, close_s=0) as remote:
        sandboxes = [await remote.create() for _ in range(5)]
        assert backend.living == len(sandboxes)
    assert len(backend.made) == 5
    assert backend.living == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_every_sandbox_and_tells_who_waits(
    number: signal.Signals, namespaces: None
) -> None:
    with server_process() as server:
        async with client(server.url, retry_s=1, close_s=0) as remote:
            sandboxes = [await remote.create() for _ in range(3)]
            waiting = [asyncio.create_task(box.exec(["sleep", "4711"])) for box in sandboxes]
            await until(lambda: server.commands().count("sleep 4711") == 3)
            server.process.send_signal(number)
            assert await asyncio.to_thread(server.process.wait, 20) == 0
            for task in waiting:
                with pytest.raises(SandboxLost):
                    await task
        assert server.process.stdout is not None
        assert server.process.stdout.read() == "ended\n"


async def test_https(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGYM_SANDBOX_TOKEN", TOKEN)
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    line = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    line += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(line, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("no openssl to make a certificate with")
    async with served(ScriptedBackend(), tls_certificate=certificate, tls_key=key) as url:
        assert url.startswith("https://")
        async with client(url, ca_file=certificate) as remote:
            assert (await (await remote.create()).exec(["hello"])).ok
        async with client(url, retry_s=0) as stranger:
            with pytest.raises(SandboxUnavailable, match="certificate"):
                await stranger.create()
    with pytest.raises(SandboxUnavailable, match="certificate"):
        await serve(ScriptedBackend(), ServeConfig(port=0, tls_certificate=key, tls_key=certificate))


@pytest.mark.parametrize("module", ["uvicorn", "starlette"])
def test_a_missing_package_is_named_with_its_extra(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None\nimport turngym.sandboxes.server.serving"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "turngym[serve]"' in done.stderr


def test_a_client_needs_no_web_server() -> None:
    code = (
        "import sys, turngym.sandboxes.backends.remote, turngym.sandboxes.server.config as c; c.ServeConfig()\n"
        "assert not {'starlette', 'uvicorn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
