"""`key=value` arguments whose values are read as TOML, or as plain text where they are none."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

import typer


def parse_pairs(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    """A mapping from `key=value` texts.

    Raises:
        typer.BadParameter: one has no `=`.
    """
    return dict(_pair(option, pair) for pair in pairs)


def _pair(option: str, pair: str) -> tuple[str, Any]:
    key, equals, text = pair.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{option} {pair}: write it as key=value")
    try:
        return key.strip(), tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), text
