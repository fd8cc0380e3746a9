"""Servers for the tests of MCP: the storeroom and one of the official SDK, over standard input and output and HTTP."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
import uvicorn

from turngym.envs.builtin.mcp_tools.connection import Server
from turngym.envs.builtin.mcp_tools.demo import COMMAND
from turngym.envs.builtin.mcp_tools.demo_http import StoreroomServer

SDK_COMMAND = (sys.executable, str(Path(__file__).with_name("sdk_server.py")))


@pytest.fixture
def storeroom() -> Server:
    return Server(command=COMMAND)


@pytest.fixture(scope="session")
def http_storeroom():
    with StoreroomServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(10)


@pytest.fixture(scope="session")
def sdk_url():
    """The SDK's server over streamable HTTP, in this process."""
    sys.path.insert(0, str(Path(__file__).parent))
    try:
        from sdk_server import server
    finally:
        sys.path.pop(0)
    app = server.streamable_http_app()
    running = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", ws="none"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}/mcp"
    running.should_exit = True
    thread.join(10)


@pytest.fixture
def no_process_left():
    """Fail if the test leaves a process behind, after a moment for it to end."""
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    yield
    for _ in range(500):
        left = {child.pid for child in psutil.Process().children(recursive=True)} - before
        if not left:
            return
        time.sleep(0.02)
    pytest.fail(f"processes are left: {left}")
