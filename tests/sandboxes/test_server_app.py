from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.server.wire import decode, encode

from .scripted import ScriptedBackend
from .served import served

TOKEN = "0123456789abcdef0123"
ID, KEY = "a" * 32, "b" * 32
EXEC: dict[str, Any] = {"argv": ["hello"], "stdin": b"", "cwd": ".", "env": {}}


@contextlib.asynccontextmanager
async def asking(backend: ScriptedBackend | None = None, **config: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A plain client of a server, which has made one sandbox."""
    async with (
        served(backend or ScriptedBackend(), **config) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as http,
    ):
        await create(http)
        yield http


async def create(http: httpx.AsyncClient, name: str = ID, **values: Any) -> httpx.Response:
    order = {"limits": DEFAULT_LIMITS.model_dump(), "lease_s": 60.0, **values}
    return await http.put(f"/v1/sandboxes/{name}", content=encode(order))


async def call(
    http: httpx.AsyncClient, verb: str, values: Any, key: str = KEY, wait: str = "20"
) -> httpx.Response:
    body = values if isinstance(values, bytes) else encode(values)
    headers = {"turngym-key": key, "turngym-wait": wait}
    return await http.post(f"/v1/sandboxes/{ID}/{verb}", content=body, headers=headers)


def error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, decode(response.content)["error"]


async def test_the_same_key_gets_the_same_answer_and_runs_once() -> None:
    backend = ScriptedBackend()
    async with asking(backend) as http:
        first = await call(http, "exec", EXEC)
        again = await call(http, "exec", b"")
        other = await call(http, "exec", EXEC, key="c" * 32)
    assert first.content == again.content == other.content
    assert len(backend.ran) == 2


async def test_a_second_request_waits_for_the_running_first() -> None:
    backend = ScriptedBackend()
    async with asking(backend) as http:
        order = {**EXEC, "argv": ["sleep", "0.3"]}
        answers = await asyncio.gather(*(call(http, "exec", order) for _ in range(4)))
        assert {answer.status_code for answer in answers} == {200}
        assert len(backend.ran) == 1
        running = await call(http, "exec", order, key="c" * 32, wait="0")
        assert (running.status_code, running.content) == (202, b"")
        assert (await call(http, "exec", b"", key="c" * 32)).status_code == 200
        assert len(backend.ran) == 2


async def test_an_error_is_an_answer_too() -> None:
    backend = ScriptedBackend()
    async with asking(backend) as http:
        for _ in range(2):
            lost = await call(http, "exec", {**EXEC, "argv": ["lost"]})
            assert error(lost) == (422, "SandboxLost")
            assert decode(lost.content)["stdout"] == b"so far"
        broken = await call(http, "exec", {**EXEC, "argv": ["break"]}, key="c" * 32)
        assert error(broken) == (500, "SandboxError")
        assert b"secret" not in broken.content
    assert len(backend.ran) == 2


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\x80\x04K\x01.", b"\xff" * 100, b'{"argv": ["x"]}', encode({}), encode({**EXEC, "x": 1})],
)
async def test_garbage_is_refused_and_does_no_harm(body: bytes) -> None:
    async with asking() as http:
        assert error(await call(http, "exec", body))[0] in (400, 422)
        for method in ("put", "post"):
            for path in (f"/v1/sandboxes/{ID}", "/v1/leases"):
                refused = await http.request(method, path, content=body)
                assert refused.status_code in (200, 400, 405), (path, refused)
        assert (await call(http, "exec", EXEC, key="d" * 32)).status_code == 200


async def test_names_are_what_they_must_be() -> None:
    async with asking() as http:
        for key in ("", "short", "Z" * 32, "a" * 33):
            assert error(await call(http, "exec", EXEC, key=key)) == (400, "ValueError")
        assert error(await call(http, "shutdown", EXEC))[0] == 400
        assert error(await create(http, "A" * 32))[0] == 400
        assert (await create(http, "..%2f..%2fetc%2fpasswd")).status_code == 404
        gone = await http.post(f"/v1/sandboxes/{'e' * 32}/exec", content=b"", headers={"turngym-key": KEY})
        assert error(gone) == (404, "SandboxLost")
        assert (await http.get("/v1/nowhere")).status_code == 404


async def test_a_body_that_is_too_large_is_refused_unread() -> None:
    backend = ScriptedBackend()
    async with asking(backend, max_body_mib=1) as http:
        large = encode({**EXEC, "stdin": bytes(3 << 20)})

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(large), 1 << 16):
                yield large[at : at + (1 << 16)]

        assert error(await call(http, "exec", large)) == (413, "FileTooLarge")
        chunked = await http.post(
            f"/v1/sandboxes/{ID}/exec", content=pieces(), headers={"turngym-key": "c" * 32}
        )
        assert error(chunked) == (413, "FileTooLarge")
        assert (await call(http, "exec", EXEC, key="d" * 32)).status_code == 200
    assert backend.ran == [["hello"]]


async def test_a_body_that_never_comes_frees_its_place() -> None:
    async with asking(max_calls=1, body_s=0.2) as http:

        async def trickle() -> AsyncIterator[bytes]:
            yield b"\0"
            await asyncio.sleep(1)

        began = time.monotonic()
        with contextlib.suppress(httpx.TransportError):
            slow = await http.post(
                f"/v1/sandboxes/{ID}/exec", content=trickle(), headers={"turngym-key": KEY}
            )
            assert slow.status_code == 408
        assert (await call(http, "exec", EXEC, key="c" * 32)).status_code == 200
        assert time.monotonic() - began < 10


async def test_limits_above_the_maxima_or_with_paths_are_refused() -> None:
    async with asking() as http:
        big = Limits(wall_s=80000).model_dump()
        assert error(await create(http, "c" * 32, limits=big)) == (422, "ValueError")
        assert error(await call(http, "exec", {**EXEC, "limits": big})) == (422, "ValueError")
        for more in ({"binds": ["/etc"]}, {"root": "/"}, {"privileged": True}):
            sneaky = await create(http, "c" * 32, limits={**DEFAULT_LIMITS.model_dump(), **more})
            assert error(sneaky) == (400, "ValueError")
            assert error(await create(http, "c" * 32, **more)) == (400, "ValueError")


async def test_too_many_sandboxes_and_calls_are_told_to_come_later() -> None:
    async with asking(max_sandboxes=1, max_calls=1, queue_s=0.1) as http:
        full = await create(http, "c" * 32)
        assert error(full) == (429, "SandboxBusy")
        assert int(full.headers["retry-after"]) >= 1
        sleep = {**EXEC, "argv": ["sleep", "0.6"]}
        running = asyncio.create_task(call(http, "exec", sleep))
        await asyncio.sleep(0.1)
        busy = await call(http, "exec", EXEC, key="c" * 32)
        assert error(busy) == (429, "SandboxBusy")
        assert int(busy.headers["retry-after"]) >= 1
        joined = await call(http, "exec", b"")
        assert joined.status_code == 200, "whoever asks again for a running call needs no place"
        assert (await running).status_code == 200
        status = decode((await http.get("/v1/status")).content)
        assert (status["calls"], status["sandboxes"]) == (0, 1)
        assert (await call(http, "exec", EXEC, key="d" * 32)).status_code == 200


async def test_a_client_that_hangs_up_finds_its_answer_later() -> None:
    backend = ScriptedBackend()
    async with asking(backend) as http:
        with pytest.raises(httpx.ReadTimeout):
            await http.post(
                f"/v1/sandboxes/{ID}/exec",
                content=encode({**EXEC, "argv": ["sleep", "0.4"]}),
                headers={"turngym-key": KEY},
                timeout=0.1,
            )
        await asyncio.sleep(0.6)
        began = time.monotonic()
        assert (await call(http, "exec", b"")).status_code == 200
        assert time.monotonic() - began < 0.3
    assert len(backend.ran) == 1


async def test_the_end_of_a_sandbox_answers_who_waits_for_it() -> None:
    async with asking() as http:
        waiting = asyncio.create_task(call(http, "exec", {**EXEC, "argv": ["sleep", "60"]}))
        await asyncio.sleep(0.1)
        assert (await http.delete(f"/v1/sandboxes/{ID}")).status_code == 200
        assert error(await waiting) == (404, "SandboxLost")
        assert (await http.delete(f"/v1/sandboxes/{ID}")).status_code == 200


async def test_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNGYM_SANDBOX_TOKEN", TOKEN)
    backend = ScriptedBackend()
    async with served(backend) as url, httpx.AsyncClient(base_url=url, trust_env=False) as http:
        for given in (
            {},
            {"authorization": TOKEN},
            {"authorization": f"Bearer {TOKEN}x"},
            {"authorization": "Bearer"},
        ):
            http.headers = httpx.Headers(given)
            assert error(await create(http)) == (401, "SandboxUnavailable")
            assert (await http.get("/v1/status")).status_code == 401
            assert (await http.get("/v1/nowhere")).status_code == 401
            assert (await http.get("/v1/health")).json() == {"ok": True}
        assert not backend.made
        http.headers = httpx.Headers({"authorization": f"Bearer {TOKEN}"})
        assert (await create(http)).status_code == 200


async def test_without_a_token_only_loopback_s_own_names_are_served() -> None:
    async with asking() as http:
        rebound = await http.get("/v1/status", headers={"host": "evil.example:80"})
        assert rebound.status_code == 401
        assert (await http.get("/v1/status", headers={"host": "localhost:1"})).status_code == 200
        assert (await http.get("/v1/status", headers={"host": "[::1]"})).status_code == 200
