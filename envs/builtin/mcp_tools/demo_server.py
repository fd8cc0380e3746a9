"""A server of the Model Context Protocol with a store room behind it, one for each process.

    python demo_server.py              over standard input and output
    python demo_server.py --port 8000  over HTTP on this machine

A script that imports nothing of turngym, since each episode starts it. The SDK is imported when it serves: the room
itself is also what the environment's tasks are made of.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

STOCK: Final = {
    "apples": 41, "bolts": 260, "candles": 18, "drills": 7, "envelopes": 500, "forks": 64, "gloves": 33, "hammers": 12,
    "inkwells": 9, "jars": 85, "kettles": 14, "lamps": 27, "mugs": 72, "nails": 930, "oars": 6, "pens": 148,
}  # fmt: skip
"""Pieces of each article when the room is opened."""


class Shelf:
    """What is in the room now."""

    def __init__(self) -> None:
        self.pieces = dict(STOCK)

    def count(self, article: str) -> int:
        """Pieces of an article.

        Raises:
            ValueError: there is no such article.
        """
        if article not in self.pieces:
            raise ValueError(f"there is no article {article!r}; there are {', '.join(sorted(self.pieces))}")
        return self.pieces[article]

    def take(self, article: str, pieces: int) -> int:
        """Take pieces out; what is left.

        Raises:
            ValueError: there is no such article, or less of it.
        """
        if not 1 <= pieces <= self.count(article):
            raise ValueError(f"{pieces} of {article} cannot be taken: there are {self.pieces[article]}")
        self.pieces[article] -= pieces
        return self.pieces[article]

    def put(self, article: str, pieces: int) -> int:
        """Put pieces in; what is there then.

        Raises:
            ValueError: there is no such article, or the number makes no sense.
        """
        if not 1 <= pieces <= 10_000:
            raise ValueError(f"{pieces} pieces cannot be put in")
        self.pieces[article] = self.count(article) + pieces
        return self.pieces[article]


def make_server() -> MCPServer:
    """The server, with a room of its own."""
    from mcp.server.mcpserver import MCPServer

    server, shelf = MCPServer("store room"), Shelf()

    @server.tool()
    def count(article: str) -> int:
        """How many pieces of an article there are."""
        return shelf.count(article)

    @server.tool()
    def take(article: str, pieces: int) -> int:
        """Take pieces of an article out; returns how many are left."""
        return shelf.take(article, pieces)

    @server.tool()
    def put(article: str, pieces: int) -> int:
        """Put pieces of an article in; returns how many there are then."""
        return shelf.put(article, pieces)

    return server


def main() -> None:
    """Serve until the client leaves, or for ever over HTTP."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=None, help="serve HTTP on this port of 127.0.0.1")
    port = parser.parse_args().port
    if port is None:
        make_server().run("stdio")
    else:
        make_server().run("streamable-http", host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
