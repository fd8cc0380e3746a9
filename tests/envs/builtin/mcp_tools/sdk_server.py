"""A server made with the official SDK, with everything that can go well or wrong; started by the tests.

python sdk_server.py            standard input and output
"""

from __future__ import annotations

import base64
import os
import sys
import time
from typing import Any

from mcp.server.mcpserver import Image, MCPServer
from mcp_types import EmbeddedResource, ResourceLink, TextContent, TextResourceContents

server = MCPServer("oddities", log_level="CRITICAL")
counts = {"calls": 0}


@server.tool()
def count(step: int = 1) -> str:
    """Count calls of this process.

    Args:
        step: by how much.
    """
    counts["calls"] += step
    return f"{counts['calls']}"


@server.tool()
def structured(x: int) -> dict[str, Any]:
    """Structured content."""
    return {"x": x, "double": 2 * x}


@server.tool(structured_output=False)
def mixed() -> list[Any]:
    """Blocks of several types."""
    link = ResourceLink(type="resource_link", name="manual", uri="file:///manual.txt", mime_type="text/plain")
    inside = EmbeddedResource(
        type="resource", resource=TextResourceContents(uri="file:///a", text="inside", mime_type="text/plain")
    )
    return [TextContent(type="text", text="first"), Image(data=b"12345", format="png"), link, inside]


@server.tool()
def fail(message: str) -> str:
    """Raise."""
    raise ValueError(message)


@server.tool()
def variable(name: str) -> str:
    """A variable of the environment, or the working directory."""
    return os.getcwd() if name == "cwd" else os.environ.get(name, "unset")


@server.tool()
def noise() -> str:
    """Say something different each time."""
    return base64.b64encode(os.urandom(12)).decode()


@server.tool()
def die(word: str = "") -> str:
    """End the process."""
    print(word, file=sys.stderr, flush=True)
    os._exit(3)


@server.tool()
def hang(seconds: float = 60.0) -> str:
    """Take long."""
    time.sleep(seconds)
    return "late"


@server.tool()
def env(self: str, env: str) -> str:
    """Arguments with awkward names."""
    return f"{self} {env}"


if __name__ == "__main__":
    server.run("stdio")
