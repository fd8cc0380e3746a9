from __future__ import annotations

import asyncio
import dataclasses
import gc
import random
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from turngym.sandboxes.backends.namespace import NamespaceBackend
from turngym.sandboxes.backends.remote import RemoteBackend, RemoteConfig
from turngym.sandboxes.client import link
from turngym.sandboxes.errors import (
    FileTooLarge,
    SandboxBusy,
    SandboxLost,
    SandboxUnavailable,
    SessionLost,
)
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.protocols import Backend, Sandbox

from .scripted import ScriptedBackend, unavailable
from .served import client, need_namespaces, served, server_process, until


class Cutter:
    """A connection's way to the server, that is cut when the request has gone out and an answer is on its way."""

    def __init__(self, url: str, cuts: int) -> None:
        self.port = int(url.rpartition(":")[2])
        self.cuts = cuts
        self.needle = b"POST /v1/sandboxes"

    async def __aenter__(self) -> str:
        self.server = await asyncio.start_server(self.pass_on, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self.port)
        marked = False

        async def up() -> None:
            nonlocal marked
            while data := await reader.read(1 << 16):
                marked = marked or self.needle in data
                inner_writer.write(data)
            inner_writer.close()

        async def down() -> None:
            while data := await inner_reader.read(1 << 16):
                if marked and self.cuts > 0:
                    self.cuts -= 1
                    writer.transport.abort()
                    inner_writer.close()
                    return
                writer.write(data)
            writer.close()

        await asyncio.gather(up(), down(), return_exceptions=True)


async def test_it_is_a_backend() -> None:
    async with served(ScriptedBackend()) as url, client(url) as remote:
        assert isinstance(remote, Backend)
        async with await remote.create() as sandbox:
            assert isinstance(sandbox, Sandbox)
        found = await remote.capabilities()
        assert found.enforced == {"files", "sessions"}
        assert found.remedies == {"kernel": "it is a script"}
        assert found.backend == "remote (scripted)"


async def test_images_of_the_server_s_list() -> None:
    usual, other = ScriptedBackend(), ScriptedBackend()
    async with served(usual, images={"a/b:1?": other}) as url:
        async with client(url, image="a/b:1?") as remote:
            await remote.create()
            await remote.capabilities()
        assert (len(usual.made), len(other.made)) == (0, 1)
        async with client(url, image="/etc") as remote:
            with pytest.raises(ValueError, match="offers: a/b:1"):
                await remote.create()
            with pytest.raises(ValueError, match="does not offer"):
                await remote.capabilities()


async def test_a_call_whose_answer_is_lost_on_the_way_runs_once() -> None:
    backend = ScriptedBackend()
    async with served(backend) as url, (cutter := Cutter(url, cuts=3)) as way, client(way) as remote:
        async with await remote.create() as sandbox:
            result = await sandbox.exec(["hello"], stdin=b"\0\xff")
            assert result.stdout == b"\0\xff"
        assert cutter.cuts == 0
        assert backend.ran == [["hello"]]
        assert len(backend.made) == 1


async def test_a_sandbox_whose_answer_is_lost_on_the_way_is_made_once() -> None:
    backend = ScriptedBackend(create_s=0.1)
    async with served(backend) as url:
        cutter = Cutter(url, cuts=3)
        cutter.needle = b"PUT /v1/sandboxes"
        async with cutter as way, client(way) as remote, await remote.create():
            assert len(backend.made) == 1
            assert cutter.cuts == 0


async def test_what_takes_long_is_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_WAIT_S", 0.05)
    backend = ScriptedBackend(create_s=0.3)
    async with served(backend) as url, client(url, retry_s=0, busy_s=0) as remote:
        async with await remote.create() as sandbox:
            assert (await sandbox.exec(["sleep", "0.4"])).ok
        assert (len(backend.made), len(backend.ran)) == (1, 1)


async def test_errors_are_those_of_a_local_sandbox() -> None:
    async with served(ScriptedBackend()) as url, client(url) as remote:
        sandbox = await remote.create()
        with pytest.raises(TypeError, match="shell line"):
            await sandbox.exec("ls -l")
        with pytest.raises(ValueError, match="zero byte"):
            await sandbox.exec(["a\0b"])
        session = await sandbox.session()
        with pytest.raises(SessionLost, match="died") as lost:
            await session.run("die")
        assert (lost.value.stdout, lost.value.stderr) == (b"half", b"\xff")
        assert (await session.run("1234")).value == "4"
        with pytest.raises(SandboxLost, match="fell over") as caught:
            await sandbox.exec(["lost"])
        assert (caught.value.stdout, caught.value.stderr) == (b"so far", b"\xff")
        for _ in range(2):
            with pytest.raises(SandboxLost, match="fell over"):
                await sandbox.exec(["hello"])
        await sandbox.close()
        with pytest.raises(SandboxLost, match="closed"):
            await sandbox.exec(["hello"])
    with pytest.raises(SandboxUnavailable, match="backend is closed"):
        await remote.create()


async def test_a_server_that_cannot_says_why() -> None:
    async with served(ScriptedBackend(error=unavailable())) as url, client(url) as remote:
        with pytest.raises(SandboxUnavailable, match="install one"):
            await remote.create()
        with pytest.raises(ValueError, match="memory_mib 8192"):
            await remote.create(Limits(memory_mib=8192))


async def test_no_server_and_a_server_that_is_none() -> None:
    async with client("http://127.0.0.1:9", retry_s=0.1) as remote:
        with pytest.raises(SandboxUnavailable, match="cannot be reached"):
            await remote.create()

    async def web(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>")
        writer.close()

    other = await asyncio.start_server(web, "127.0.0.1", 0)
    async with client(f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}", retry_s=0.1) as remote:
        with pytest.raises(SandboxUnavailable, match="no sandbox server"):
            await remote.create()
    other.close()
    await other.wait_closed()


async def test_a_server_that_vanishes_loses_its_sandboxes() -> None:
    async with served(ScriptedBackend()) as url:
        remote = RemoteBackend(RemoteConfig(url=url, retry_s=0.2, close_s=0))
        sandbox = await remote.create()
    with pytest.raises(SandboxLost, match="cannot be reached"):
        await sandbox.exec(["hello"])
    await remote.close()


async def test_wrong_and_missing_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGYM_SANDBOX_TOKEN", "0123456789abcdef0123")
    async with served(ScriptedBackend()) as url:
        for variable, told in (("WRONG", "this token"), ("MISSING", "without a token")):
            monkeypatch.setenv("WRONG", "0123456789abcdef0124")
            async with client(url, token_env=variable) as remote:
                with pytest.raises(SandboxUnavailable, match=told) as caught:
                    await remote.create()
                assert "0123456789" not in str(caught.value) + repr(remote.config.address())
        monkeypatch.setenv("WRONG", "0123456789abcdef\n0124")
        with pytest.raises(SandboxUnavailable, match="printable ASCII") as caught:
            RemoteBackend(RemoteConfig(url=url, token_env="WRONG"))
        assert "0123456789" not in str(caught.value)
        async with client(url) as remote:
            await remote.create()


async def test_a_full_server_is_asked_again_and_then_busy() -> None:
    backend = ScriptedBackend()
    async with served(backend, max_sandboxes=1) as url, client(url, busy_s=8) as remote:
        first = await remote.create()
        asyncio.get_running_loop().call_later(0.5, lambda: asyncio.ensure_future(first.close()))
        second = await remote.create()
        async with client(url, busy_s=0.3) as hasty:
            with pytest.raises(SandboxBusy, match="all 1 sandboxes"):
                await hasty.create()
        await second.close()
    async with (
        served(backend, max_calls=1, queue_s=0) as url,
        client(url) as remote,
        client(url, busy_s=0) as hasty,
    ):
        first, third = await remote.create(), await hasty.create()
        running = asyncio.create_task(first.exec(["sleep", "0.5"]))
        await asyncio.sleep(0.1)
        with pytest.raises(SandboxBusy):
            await third.exec(["hello"])
        assert (await running).ok
        assert (await third.exec(["hello"])).ok, "a sandbox outlives a server that was busy"


async def test_too_much_at_once_is_not_even_sent() -> None:
    async with served(ScriptedBackend(), max_body_mib=2) as url, client(url) as remote:
        sandbox = await remote.create()
        with pytest.raises(FileTooLarge):
            await sandbox.write_file("a", bytes(3 << 20))
        with pytest.raises(ValueError, match="too much"):
            await sandbox.exec(["hello"], stdin=bytes(3 << 20))
        assert (await sandbox.exec(["hello"])).ok


async def test_a_lease_is_renewed_while_nothing_is_called_even_if_the_loop_is_blocked() -> None:
    backend = ScriptedBackend()
    go, done = threading.Event(), threading.Event()

    async def other_loop(url: str) -> None:
        async with client(url, lease_s=1) as remote:
            sandbox = await remote.create()
            go.wait(2.5)  # blocks this loop on purpose
            assert (await sandbox.exec(["hello"])).ok
        done.set()

    async with served(backend) as url:
        thread = threading.Thread(target=lambda: asyncio.run(other_loop(url)))
        thread.start()
        await until(done.is_set)
        thread.join()
        assert backend.living == 0


async def test_a_sandbox_that_nobody_holds_any_more_is_ended() -> None:
    backend = ScriptedBackend()
    async with served(backend) as url, client(url) as remote:
        await remote.create()
        gc.collect()
        await until(lambda: len(backend.made) == 1 and backend.living == 0)


async def test_a_cancelled_call_ends_the_sandbox_as_it_does_locally() -> None:
    backend = ScriptedBackend()
    async with served(backend) as url, client(url) as remote:
        sandbox = await remote.create()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(sandbox.exec(["sleep", "60"]), 0.2)
        with pytest.raises(SandboxLost, match="broke off"):
            await sandbox.exec(["hello"])
        await until(lambda: backend.living == 0)
        making = asyncio.create_task(remote.create())
        await asyncio.sleep(0)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await until(lambda: backend.living == 0)


async def test_calls_follow_each_other_in_order() -> None:
    backend = ScriptedBackend()
    async with served(backend) as url, client(url) as remote:
        sandbox = await remote.create()
        await asyncio.gather(*(sandbox.exec([str(i)]) for i in range(20)))
        assert backend.ran == [[str(i)] for i in range(20)]


async def test_one_backend_serves_several_event_loops() -> None:
    async with served(ScriptedBackend()) as url, client(url) as remote:

        async def one() -> bool:
            async with await remote.create() as sandbox:
                return (await sandbox.exec(["hello"])).ok

        def loop() -> bool:
            with asyncio.Runner() as runner:
                ok = runner.run(one())
                runner.run(remote.link.close())
                return ok

        assert await asyncio.to_thread(loop)
        assert await one()


async def test_large_output() -> None:
    async with served(ScriptedBackend()) as url, client(url) as remote:
        sandbox = await remote.create()
        assert len((await sandbox.exec(["write", str(100 << 20)])).stdout) == 100 << 20


@pytest.mark.parametrize("url", ["ftp://a", "a:80", "http://user:secret@a", "http://a/path", "http://"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError):
        RemoteConfig(url=url)


# With real sandboxes.


@pytest.fixture(scope="module")
def namespaces() -> None:
    need_namespaces()


@pytest.fixture
async def pair(namespaces: None) -> AsyncIterator[tuple[Sandbox, Sandbox]]:
    """The same kind of sandbox, here and through a server."""
    backend = NamespaceBackend()
    async with served(backend) as url, client(url) as remote:
        yield await backend.create(), await remote.create()
    await backend.close()


Scenario = Callable[[Sandbox], Awaitable[Any]]
SMALL = Limits(wall_s=0.3, stdout_bytes=100)


async def _tar(sandbox: Sandbox) -> bytes:
    await sandbox.write_file("d/x", b"1", executable=True)
    await sandbox.exec(["ln", "-s", "/etc/passwd", "d/link"])
    data = await sandbox.pack("d")
    await sandbox.unpack(data, "e")
    return data + await sandbox.read_file("e/x")


async def _session(sandbox: Sandbox) -> list[Any]:
    session = await sandbox.session()
    found: list[Any] = [
        await session.run("x = 2\nprint('é')"),
        await session.run("x ** 10"),
        await session.run("1 / 0"),
        await session.run("import time\ntime.sleep(9)", limits=SMALL),
        await session.run("'\udcff'"),
    ]
    try:
        await session.run("import os\nprint('bye', flush=True)\nos._exit(3)")
    except SessionLost as error:
        found.append((str(error), error.stdout, error.stderr))
    await session.close()
    await session.close()
    return found


SCENARIOS: dict[str, Scenario] = {
    "exit": lambda s: s.exec(["sh", "-c", "echo out; echo err >&2; exit 124"]),
    "signal": lambda s: s.exec(["sh", "-c", "kill -TERM $$"]),
    "timeout": lambda s: s.exec(["sh", "-c", "echo so far; sleep 9"], limits=SMALL),
    "output": lambda s: s.exec(["sh", "-c", "yes"], limits=SMALL),
    "missing": lambda s: s.exec(["no-such-program"]),
    "bytes": lambda s: s.exec(["cat"], stdin=bytes(range(256)) * 1000),
    "surrogates": lambda s: s.exec(["echo", "\udcff"], env={"A": "\udcfe"}),
    "env": lambda s: s.exec(["env"], env={"A": "b=c"}),
    "cwd": lambda s: s.exec(["pwd"], cwd="/tmp"),
    "bad cwd": lambda s: s.exec(["pwd"], cwd="nowhere"),
    "reply": lambda s: s.exec(["sh", "-c", "printf hi >&3"], reply_bytes=10),
    "reply too long": lambda s: s.exec(["sh", "-c", "printf hello >&3; sleep 5"], reply_bytes=2),
    "no argv": lambda s: s.exec([]),
    "zero byte": lambda s: s.exec(["a\0"]),
    "bad name": lambda s: s.exec(["true"], env={"a=b": "c"}),
    "line": lambda s: s.exec("ls"),
    "other walls": lambda s: s.exec(["true"], limits=Limits(memory_mib=64)),
    "no file": lambda s: s.read_file("nope"),
    "above": lambda s: s.read_file("../x"),
    "outside": lambda s: s.read_file("/etc/passwd"),
    "large": lambda s: s.write_file("large", bytes(3000)),
    "too large": lambda s: s.read_file("large", max_bytes=2999),
    "odd name": lambda s: s.write_file("a\udcff/é", b"x"),
    "write above": lambda s: s.write_file("../x", b""),
    "no space": lambda s: s.write_file("huge", bytes(70 << 20)),
    "no tar": lambda s: s.unpack(b"no tar"),
    "tar": _tar,
    "pack nothing": lambda s: s.pack("nowhere"),
    "session": _session,
}


def plain(value: Any) -> Any:
    """A result without its times."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        clock = {"wall_s", "cpu_s", "peak_memory_mib"}
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.name not in clock}
    return value


async def outcome(scenario: Scenario, sandbox: Sandbox) -> Any:
    try:
        return plain(await scenario(sandbox))
    except Exception as error:  # noqa: BLE001 (whatever it is, it must be the same)
        return type(error), str(error)


async def test_a_remote_sandbox_means_what_a_local_one_means(pair: tuple[Sandbox, Sandbox]) -> None:
    local, remote = pair
    for name, scenario in SCENARIOS.items():
        expected = await outcome(scenario, local)
        assert await outcome(scenario, remote) == expected, name


async def test_everything_that_is_measured_comes_through(pair: tuple[Sandbox, Sandbox]) -> None:
    result = await pair[1].exec(["python3", "-c", "sum(range(10**6))"])
    assert 0 < result.cpu_s < 5
    assert 0 < result.wall_s < 10
    assert result.peak_memory_mib > 1


CLIENT = """
import asyncio, os, sys
from turngym.sandboxes.backends.remote import RemoteBackend, RemoteConfig

async def main():
    backend = RemoteBackend(RemoteConfig(url=sys.argv[1], lease_s=1))
    print("begun", flush=True)
    async def one():
        while True:
            async with await backend.create() as sandbox:
                await sandbox.exec(["true"])
                await sandbox.write_file("a", b"x" * 100_000)
                await sandbox.exec(["sh", "-c", "sleep 8642 & setsid sleep 8642"])
    await asyncio.gather(one(), one())

asyncio.run(main())
"""


async def test_a_client_that_is_killed_leaves_nothing_behind_after_its_lease(namespaces: None) -> None:
    draw = random.Random(7)
    with server_process() as server:
        async with client(server.url) as remote:
            for _ in range(4):
                victim = subprocess.Popen([sys.executable, "-c", CLIENT, server.url], stdout=subprocess.PIPE)
                assert victim.stdout is not None
                assert victim.stdout.readline() == b"begun\n"
                await asyncio.sleep(draw.uniform(0.0, 0.6))
                victim.send_signal(signal.SIGKILL)
                victim.wait()
                victim.stdout.close()

            async def used() -> int:
                return int((await remote.link.ask("GET", "/v1/status"))["sandboxes"])

            await until(lambda: "sleep 8642" not in server.commands(), 15)
            deadline = asyncio.get_running_loop().time() + 10
            while await used():
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.1)
            assert (await (await remote.create()).exec(["true"])).ok
