"""Every backend, as a parameter: what is asked of one is asked of all.

A backend that is not there is skipped, or fails where TURNGYM_REQUIRE names it.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from turngym.sandboxes.backends.namespace import NamespaceBackend, NamespaceConfig
from turngym.sandboxes.backends.remote import RemoteBackend, RemoteConfig
from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.protocols import Backend, Sandbox

# The tests are no package: this makes `conformance.helpers` importable, however pytest was started.
sys.path.insert(0, str(Path(__file__).parents[1]))
from conformance import helpers
from conformance.helpers import ENV_CANARY, container_roots
from served import ServerProcess

QUICK = Limits(wall_s=8, cpu_s=8, memory_mib=256, processes=64, disk_mib=64)
"""What most tests ask for."""


@dataclass(frozen=True)
class Kind:
    """One backend, and what it claims."""

    name: str
    make: Callable[[], Any]
    isolates: bool = True
    sessions: bool = True
    roots: Callable[[], Any] = tuple
    """Processes of its own that do not hang below this one."""
    warm: bool = False
    """Whether its slots outlive a sandbox."""
    pristine: bool = False
    """Whether programs are forks of a process that no request passes through; else of the sandbox's supervisor."""
    counts_files: bool = True
    """Whether `Limits.inodes` is exact; else files are bounded as the memory that they take."""
    tolerates: tuple[str, ...] = ()
    """Attempts that succeed, and harm nobody but the program's own sandbox."""


def _later(module: str, name: str, program: str = "", **options: Any) -> Callable[[], Any]:
    """A backend whose module or program may be missing."""

    def make() -> Any:
        if program and shutil.which(program) is None:
            raise SandboxUnavailable(f"{program} is not installed")
        try:
            found = importlib.import_module(f"turngym.sandboxes.backends.{module}")
        except ImportError as error:
            raise SandboxUnavailable(str(error)) from error
        return getattr(found, name)(**options)

    return make


MOST = {"memory_mib": 4096, "processes": 512, "disk_mib": 1024, "inodes": 1 << 17, "open_files": 1024}


class Served(RemoteBackend):
    """A client of a server in a process of its own, which lends namespaces and ends with it."""

    def __init__(self) -> None:
        self._server = ServerProcess(
            most=Limits(file_mib=1 << 20, wall_s=3600, cpu_s=3600).model_dump() | MOST
        )
        super().__init__(RemoteConfig(url=self._server.url))

    async def close(self) -> None:
        await super().close()
        self._server.end()


# The supervisor has the program's user id. The kernel shields the first process of a namespace from signals.
ONE_USER = ("kill ", "pidfd kill", "affinity", "priority", "scheduler", "ioprio", "write /sandbox/zz", "rename home",
            "rename temporary")  # fmt: skip
OF_ENGINES = (
    "CapBnd",  # the supervisor's three; without new privileges nobody gains one of them
    "open /sys/fs/cgroup",  # the container's own groups, read-only
    "open /sys/kernel",  # an empty folder in its place
    "homes",  # the image's own folders
    "secrets in run",
)

KINDS = {
    kind.name: kind
    for kind in (
        Kind("namespace", NamespaceBackend, warm=True, pristine=True),
        Kind(
            "namespace-cold", lambda: NamespaceBackend(NamespaceConfig(warm=False)), warm=True, pristine=True
        ),
        Kind(
            "one-shot",
            _later("bubblewrap", "BubblewrapBackend", "bwrap"),
            counts_files=False,
            tolerates=ONE_USER,
        ),
        Kind("docker", _later("docker", "DockerBackend"), roots=container_roots, tolerates=OF_ENGINES),
        Kind("remote", Served, warm=True, pristine=True),
        Kind("subprocess", _later("process", "ProcessBackend", unsafe=True), isolates=False, sessions=False),
    )
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "only_for(when): leave out the parameters of which `when` is not true")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """All tests here share one event loop, since they share backends; what asks nothing of a backend is left out."""
    here = Path(__file__).parent
    own = [item for item in items if here in item.path.parents]
    for item in own:
        if asyncio.iscoroutinefunction(getattr(item, "function", None)):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)
    left_out = [item for item in own if not _applies(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def _applies(item: pytest.Item) -> bool:
    """Whether a test asks something that its backend claims: walls, sessions, or what its mark says."""
    params = dict(getattr(getattr(item, "callspec", None), "params", {}))
    if "kind" not in params:
        return True
    kind = params["kind"] = KINDS[params["kind"]]
    names = getattr(item, "fixturenames", ())
    return (
        (kind.isolates or "isolating" not in names)
        and (kind.sessions or "with_sessions" not in names)
        and all(mark.kwargs["when"](**params) for mark in item.iter_markers("only_for"))
    )


@pytest.fixture(scope="session", params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def backend(kind: Kind) -> AsyncIterator[Backend]:
    os.environ["CANARY_TOKEN"] = ENV_CANARY
    try:
        made = kind.make()
        async with await made.create(QUICK):
            pass
    except SandboxUnavailable as error:
        reason = f"the backend {kind.name!r} is not available here: {error}"
        if kind.name in re.findall(r"[\w-]+", os.environ.get("TURNGYM_REQUIRE", "")):
            pytest.fail(reason)
        pytest.skip(reason)
    yield made
    await made.close()


Create = Callable[..., Any]


@pytest_asyncio.fixture(loop_scope="session")
async def create(backend: Backend) -> AsyncIterator[Create]:
    """Makes sandboxes that end with the test: `await create(wall_s=2)`."""
    async with AsyncExitStack() as stack:

        async def make(**fields: Any) -> Sandbox:
            limits = QUICK.model_copy(update=fields) if fields else QUICK
            return await stack.enter_async_context(await backend.create(Limits(**limits.model_dump())))

        yield make


@pytest_asyncio.fixture(loop_scope="session")
async def sandbox(create: Create) -> Sandbox:
    made: Sandbox = await create()
    return made


@pytest.fixture
def isolating() -> None:
    """For tests of walls: a backend that claims none is left out."""


@pytest.fixture
def with_sessions() -> None:
    """For tests of sessions: a backend that has none is left out."""


@pytest.fixture
def countable(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that count the host's processes: `descendants` finds those of this backend, wherever they hang."""
    monkeypatch.setattr(helpers, "further_roots", kind.roots)
