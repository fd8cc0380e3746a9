"""A connection to a server of the Model Context Protocol: one process or session, used from the background loop.

The SDK's clients are made of task groups, which must be left by the task that entered them. So a task of its own
holds the client from its opening to its end, and calls come in from elsewhere on the same loop.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from turngym.envs.errors import InfrastructureError, MissingExtra
from turngym.envs.messages import FunctionSpec, ToolSpec

_CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Which server: a program to start, an address to call, or one to make in this process.

    Raises:
        ValueError: none of them is given, or several.
    """

    command: tuple[str, ...] = ()
    """Program and arguments of a server that speaks over standard input and output."""
    url: str | None = None
    """Of a server that speaks streamable HTTP."""
    make: Callable[[], Any] | None = None
    """Makes a server of the SDK's, which then runs in this process: for servers that are trusted and quick."""
    env: tuple[tuple[str, str], ...] = ()
    """Added to the few variables that the program gets."""
    timeout_s: float = 30.0
    """Of the start, and of each call."""

    def __post_init__(self) -> None:
        if [bool(self.command), self.url is not None, self.make is not None].count(True) != 1:
            raise ValueError("name one server: its command, its url, or what makes it")

    def __str__(self) -> str:
        return self.url or " ".join(self.command) or "of this process"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said to a call."""

    text: str
    is_error: bool
    """True if the tool failed: news for the model."""


class Connection:
    """An open connection. `open` and everything else run on the background loop."""

    def __init__(self, address: ServerAddress) -> None:
        self._address = address
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._holder = asyncio.ensure_future(self._hold())

    @classmethod
    async def open(cls, address: ServerAddress) -> Connection:
        """Connect.

        Raises:
            InfrastructureError: it cannot be started or reached in time.
            MissingExtra: the SDK is not installed.
        """
        connection = cls(address)
        try:
            async with asyncio.timeout(address.timeout_s):
                await asyncio.shield(connection._ready)
        except MissingExtra:
            raise
        except BaseException as error:
            await connection.close()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise InfrastructureError(f"the MCP server {address} does not answer: {_said(error)}") from error
        return connection

    async def tools(self) -> tuple[ToolSpec, ...]:
        """What the server offers, its schemas as they are.

        Raises:
            InfrastructureError: the server failed.
        """
        listed, cursor = [], None
        while True:
            page = await self._ask(self._ready.result().list_tools(cursor=cursor))
            listed += page.tools
            cursor = page.next_cursor
            if not cursor:
                return tuple(_spec(tool) for tool in listed)

    async def call(self, call: tuple[str, str]) -> Answer:
        """Call a tool by name with its arguments as JSON text.

        Raises:
            InfrastructureError: the server died, hangs, or breaks the protocol.
        """
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        name, arguments = call
        try:
            result = await self._ask(self._ready.result().call_tool(name, json.loads(arguments)))
        except MCPError as error:  # the server refuses this call, and lives on
            if error.error.code == CONNECTION_CLOSED or self._holder.done():
                raise InfrastructureError(f"the MCP server {self._address} is gone: {error}") from error
            return Answer(str(error), is_error=True)
        return Answer(_text(result), bool(result.is_error))

    async def close(self) -> None:
        """Leave the server, and end its process. Safe to call twice; never raises for what is gone."""
        self._leave.set()
        _, pending = await asyncio.wait({self._holder}, timeout=_CLOSE_S)
        for task in pending:
            task.cancel()
        await asyncio.gather(self._holder, return_exceptions=True)

    async def _ask(self, request: Any) -> Any:
        """Wait for an answer, for the end of the connection, or for the time to be up; whichever comes first."""
        asking = asyncio.ensure_future(request)
        try:
            await asyncio.wait(
                {asking, self._holder}, timeout=self._address.timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if not asking.done():
                why = "is gone" if self._holder.done() else f"took more than {self._address.timeout_s:g} s"
                raise InfrastructureError(f"the MCP server {self._address} {why}")
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _hold(self) -> None:
        try:
            from mcp.client.client import Client
            from mcp.client.stdio import StdioServerParameters, stdio_client
        except ImportError as error:
            missing = MissingExtra(f'MCP servers need the SDK ({error}): pip install "turngym[mcp]"')
            self._ready.set_exception(missing)
            return
        try:
            with open(os.devnull, "w", encoding="utf-8") as nowhere:
                server: Any = self._address.url
                if self._address.make is not None:
                    server = self._address.make()
                elif server is None:
                    program, *arguments = self._address.command
                    parameters = StdioServerParameters(
                        command=program, args=arguments, env=dict(self._address.env) or None
                    )
                    server = stdio_client(parameters, errlog=nowhere)
                async with Client(server) as client:
                    self._ready.set_result(client)
                    await self._leave.wait()
        except BaseException as error:
            if self._ready.done():
                return  # whoever waits for an answer sees that this task has ended
            self._ready.set_exception(InfrastructureError(_said(error)))
            if not isinstance(error, Exception):
                raise


def _said(error: BaseException) -> str:
    """An error's own words; the first one's, of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _spec(tool: Any) -> ToolSpec:
    schema = {"type": "object", "properties": {}, **tool.input_schema}
    return ToolSpec(
        function=FunctionSpec(name=tool.name, description=tool.description or "", parameters=schema)
    )


def _text(result: Any) -> str:
    """The texts of a result. Other content is named; structured content stands for itself where there is no text."""
    parts = []
    for block in result.content:
        if block.type == "text":
            parts.append(block.text)
        elif block.type == "resource" and hasattr(block.resource, "text"):
            parts.append(block.resource.text)
        elif block.type == "resource_link":
            parts.append(f"[{block.uri}]")
        else:
            parts.append(f"[{block.type}, {getattr(block, 'mime_type', None) or 'unknown type'}]")
    if not parts and result.structured_content is not None:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(parts)
