import asyncio
import gc
import os
import threading

import pytest

from tests.sandboxes.scripted import ScriptedBackend
from turngym.sandboxes import service as module
from turngym.sandboxes.capabilities import UNTRUSTED
from turngym.sandboxes.errors import SandboxBusy, SandboxUnavailable, TooWeak
from turngym.sandboxes.grading import Case, FunctionTask
from turngym.sandboxes.service import SandboxService, close_services, sandbox_service


@pytest.fixture
def backend(monkeypatch):
    made = ScriptedBackend()
    monkeypatch.setattr(module, "open_backend", lambda spec: made)
    return made


def test_a_sandbox_is_used_from_several_event_loops_and_lives_on_one(backend):
    service = SandboxService("scripted", allow_weaker=True)
    threads = []
    original = backend.create

    async def create(limits):
        threads.append(threading.get_ident())
        return await original(limits)

    backend.create = create
    sandbox = asyncio.run(service.create())

    async def use():
        async with sandbox:
            result = await sandbox.exec(["anything"])
            session = await sandbox.session()
            return result, await session.run("abc")

    result, said = asyncio.run(use())
    assert (result.status, said.value) == ("exited", "3")
    asyncio.run(service.create())
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


def test_a_sandbox_that_nobody_holds_is_closed_and_its_place_is_free(backend, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 1)
    monkeypatch.setattr(module, "WAIT_S", 5.0)
    service = SandboxService("scripted", allow_weaker=True)

    async def main():
        kept = await service.create()
        inner = kept._inner
        del kept
        gc.collect()
        other = await service.create()  # waits until the first has left
        assert inner.closed
        await other.close()
        await other.close()
        third = await service.create()  # closing twice has freed one place, not two
        monkeypatch.setattr(module, "WAIT_S", 0.05)
        with pytest.raises(SandboxBusy, match="1 are in use"):
            await service.create()
        await third.close()

    asyncio.run(main())


def test_what_is_too_weak_is_refused_unless_the_code_is_trusted(backend):
    assert not asyncio.run(backend.capabilities()).enforced >= UNTRUSTED
    with pytest.raises(TooWeak, match="lacks"):
        asyncio.run(SandboxService("scripted").create())
    asyncio.run(SandboxService("scripted", allow_weaker=True).create())


def test_an_opening_that_failed_is_tried_again(monkeypatch):
    answers = [SandboxUnavailable("not now"), ScriptedBackend()]

    def open_backend(spec):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "open_backend", open_backend)
    service = SandboxService("scripted", allow_weaker=True)
    with pytest.raises(SandboxUnavailable, match="not now"):
        asyncio.run(service.create())
    asyncio.run(service.create())
    assert not answers


def test_a_cancelled_taker_gives_its_place_back(backend, monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 1)
    service = SandboxService("scripted", allow_weaker=True)
    original = backend.create

    async def slow(limits):
        await asyncio.sleep(30)
        return await original(limits)

    async def main():
        backend.create = slow
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(service.create(), 0.1)
        backend.create = original
        await (await asyncio.wait_for(service.create(), 5)).close()

    asyncio.run(main())


def test_there_is_one_service_of_a_name_and_it_grades_in_namespaces():
    service = sandbox_service("namespace")
    assert sandbox_service() is service
    assert sandbox_service(allow_weaker=True) is not service
    task = FunctionTask("add", (Case((1, 2), expected=3),))
    right, wrong = "def add(a, b):\n    return a + b\n", "def add(a, b):\n    return 3.5\n"
    assert [asyncio.run(service.grade(task, source)).score for source in (right, wrong)] == [1.0, 0.0]
    close_services()
    assert asyncio.run(service.grade(task, right)).score == 1.0  # opens again
    close_services()


def test_a_forked_child_leaves_its_parents_sandboxes_alone():
    service = sandbox_service("namespace")

    async def main():
        async with await service.create() as sandbox:
            child = os.fork()
            if child == 0:
                os._exit(0 if not module._services else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            return (await sandbox.exec(["python3", "-c", "print(1)"])).stdout_text

    try:
        assert asyncio.run(main()) == "1\n"
    finally:
        close_services()
