"""TOML in and out: a file, one value of a command line, a whole configuration.

What is read here was written by a person, so whatever is wrong with it is said in a line that they understand.
"""

from __future__ import annotations

import datetime
import json
import math
import tomllib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turngym.trainer.errors import ConfigError

MOST_LEVELS: Final = 32
"""How deep tables and arrays may be nested: far more than anybody writes, far less than Python's stack."""

_LONGEST_SHOWN = 80


def read_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a TOML file; a byte order mark of UTF-8 at its start is nothing to it.

    Raises:
        ConfigError: no such file, not in UTF-8, or no TOML.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except IsADirectoryError as error:
        example = min(path.glob("*.toml"), default=None)
        raise ConfigError(
            f"{path} is a folder: name the TOML file itself" + (f", such as {example}" if example else "")
        ) from error
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) or b"\0" in data:
        raise ConfigError(f"{path} is not in UTF-8, but in UTF-16 or no text at all: save it as UTF-8")
    try:
        return tomllib.loads(data.removeprefix(BOM_UTF8).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not in UTF-8 (byte {error.start}): save it as UTF-8") from error
    except RecursionError as error:
        raise ConfigError(f"{path} is nested too deeply: {MOST_LEVELS} levels are enough") from error
    except ValueError as error:  # no TOML, or a number with thousands of digits
        raise ConfigError(f"{path} is not TOML: {error}") from error


def read_value(text: str) -> Any:
    """The value that a text is in TOML; the text itself where it is none.

    Raises:
        ValueError: more than one value, or one that is nested too deeply.
    """
    try:
        found = tomllib.loads(f"value = {text}")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except ValueError:
        return text.strip()
    if found.keys() != {"value"}:
        raise ValueError("it is more than one value: give each key a --set or --env of its own")
    return found["value"]


def is_too_deep(data: object) -> bool:
    """True where tables and arrays are nested deeper than `MOST_LEVELS`."""
    level: list[object] = [data]
    for _ in range(MOST_LEVELS + 1):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def shown(value: object) -> str:
    """A value as a part of one line: no line break, no control character, and not too long."""
    try:
        text = value if isinstance(value, str) and value.isprintable() else repr(value)
    except ValueError:  # Python refuses to write a number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def write_toml(data: Mapping[str, Any]) -> str:
    """TOML that `read_toml` reads back to the same; sections come after the keys that are in none."""
    lines = [f"{key} = {_literal(value)}" for key, value in data.items() if not isinstance(value, dict)]
    for key, table in data.items():
        if isinstance(table, dict):
            lines += ["", f"[{key}]"] + [f"{name} = {_literal(value)}" for name, value in table.items()]
    return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(k)} = {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # inf and nan are TOML's own words
    # Not escaped to ASCII: JSON writes what lies beyond U+FFFF as two escapes, of which TOML knows neither.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
