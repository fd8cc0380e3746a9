"""Tokens between brackets: where they are parted, and which bracket closes which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.tokens import Token

Tokens = Sequence[Token]

OPENINGS: Final = frozenset("([{⦃")
CLOSINGS: Final = frozenset(")]}⦄")
RELATIONS: Final = frozenset("=<>≤≥≠∈")


def split(found: Tokens, is_separator: Callable[[Token], bool]) -> list[Tokens]:
    """Parts between separators outside of all brackets.

    Raises:
        Unreadable: the brackets do not match.
    """
    parts: list[Tokens] = []
    depth = start = 0
    for place, token in enumerate(found):
        if (token.kind == "op" and token.text in OPENINGS) or token.text.startswith("begin "):
            depth += 1
        elif (token.kind == "op" and token.text in CLOSINGS) or token.text.startswith("end "):
            depth -= 1
            if depth < 0:
                raise Unreadable("a bracket is closed that was not opened")
        elif depth == 0 and is_separator(token):
            parts.append(found[start:place])
            start = place + 1
    if depth:
        raise Unreadable("a bracket is not closed")
    return [*parts, found[start:]]


def on(*texts: str) -> Callable[[Token], bool]:
    """Whether a token is one of these signs or commands."""
    return lambda token: token.kind in ("op", "cmd") and token.text in texts


def partner(found: Tokens, opening: int) -> int | None:
    """The place of the bracket that closes the one at a place."""
    depth = 0
    for place in range(opening, len(found)):
        token = found[place]
        if token.kind == "op" and token.text in OPENINGS:
            depth += 1
        elif token.kind == "op" and token.text in CLOSINGS:
            depth -= 1
            if depth == 0:
                return place
    return None


def relations_in(found: Tokens) -> list[str]:
    """The signs of relations outside of all brackets."""
    depth = 0
    operators = []
    for token in found:
        if token.kind == "op":
            depth += (token.text in OPENINGS) - (token.text in CLOSINGS)
            if depth == 0 and token.text in RELATIONS:
                operators.append(token.text)
    return operators


def is_separator(token: Token) -> bool:
    """Whether a token parts the items of a list."""
    if token.kind == "op":
        return token.text in (",", ";")
    return token.kind in ("letters", "word") and token.text.lower() in ("and", "or")
