"""One backend and one grader for a module of tests."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from turngym.sandboxes.backends.namespace import NamespaceBackend
from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.grading import Grader


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def backend() -> AsyncIterator[NamespaceBackend]:
    backend = NamespaceBackend()
    try:
        async with await backend.create():
            pass
    except SandboxUnavailable as error:
        await backend.close()
        if "namespace" in re.findall(r"\w+", os.environ.get("TURNGYM_REQUIRE", "")):
            raise
        pytest.skip(str(error))
    yield backend
    await backend.close()


@pytest.fixture(scope="module")
def grader(backend: NamespaceBackend) -> Grader:
    return Grader(backend, at_once=2)
