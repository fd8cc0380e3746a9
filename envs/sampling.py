"""Random replies, for exploration and for checking: words, listed choices, well-typed tool calls."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant
from turngym.envs.tool_schema import definitions, resolved

_WORDS = ("yes", "no", "0", "7", "42", "red", "north", "open", "help", "done")
_MAX_DEPTH = 4
_GREATEST = 2**53
"""Whole numbers beyond are not safe in every reader of JSON."""


def random_words(rng: np.random.Generator, most: int = 3) -> str:
    """One to `most` words, separated by spaces."""
    return " ".join(_WORDS[i] for i in rng.integers(len(_WORDS), size=int(rng.integers(1, most + 1))))


def random_action(
    rng: np.random.Generator, tools: Sequence[ToolSpec] = (), choices: Sequence[str] | None = None
) -> Message | str:
    """A choice where choices are listed; else a tool call (three in four, if there are tools) or words."""
    if choices:
        return choices[int(rng.integers(len(choices)))]
    if tools and rng.random() < 0.75:
        tool = tools[int(rng.integers(len(tools)))]
        arguments = random_value(tool.function.parameters, rng)
        return assistant(None, ToolCall.of(tool.name, arguments))
    return random_words(rng)


def random_value(schema: Mapping[str, Any], rng: np.random.Generator) -> Any:
    """A random value that fits a JSON schema (types, enumerations, bounds, nesting; no patterns).

    A schema may come from anywhere (a server's tools): what is not understood of it is left out of account.
    """
    return _value(schema, rng, definitions(schema), 0)


def _value(schema: Any, rng: np.random.Generator, defs: Mapping[str, Any], depth: int) -> Any:
    schema = resolved(schema, defs)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    for union in ("anyOf", "oneOf"):
        if schema.get(union):
            # Deep down the last branch is taken: for optional and recursive types that is the one that ends.
            branches = schema[union] if depth < _MAX_DEPTH else schema[union][-1:]
            return _value(branches[int(rng.integers(len(branches)))], rng, defs, depth + 1)
    kind = schema.get("type") or ("object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[int(rng.integers(len(kind)))]
    if kind == "object":
        return _object(schema, rng, defs, depth)
    if kind == "array":
        return _array(schema, rng, defs, depth)
    if kind == "integer":
        low = math.ceil(schema.get("minimum", _exclusive(schema, "exclusiveMinimum", -11) + 1))
        most = _exclusive(schema, "exclusiveMaximum", max(low, 100) + 1) - 1
        high = math.floor(schema.get("maximum", most))
        low, high = max(low, -_GREATEST), min(high, _GREATEST)
        return int(rng.integers(low, max(low, high) + 1))
    if kind == "number":
        low = schema.get("minimum", _exclusive(schema, "exclusiveMinimum", -10.0))
        high = schema.get("maximum", _exclusive(schema, "exclusiveMaximum", max(low, 0.0) + 100.0))
        low, high = max(low, -_GREATEST), min(high, _GREATEST)
        return float(rng.uniform(low, max(low, high)))
    if kind == "boolean":
        return bool(rng.integers(2))
    if kind == "null":
        return None
    text = random_words(rng)
    return (text + "x" * schema.get("minLength", 0))[: schema.get("maxLength")]


def _exclusive(schema: Mapping[str, Any], key: str, default: float) -> Any:
    """An exclusive bound; the old form of it, true or false, is no number and is left out of account."""
    bound = schema.get(key, default)
    return default if isinstance(bound, bool) else bound


def _object(
    schema: Mapping[str, Any], rng: np.random.Generator, defs: Mapping[str, Any], depth: int
) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: _value(field, rng, defs, depth + 1)
        for name, field in schema.get("properties", {}).items()
        if name in required or (depth < _MAX_DEPTH and rng.integers(2))
    }


def _array(
    schema: Mapping[str, Any], rng: np.random.Generator, defs: Mapping[str, Any], depth: int
) -> list[Any]:
    if "prefixItems" in schema:
        return [_value(item, rng, defs, depth + 1) for item in schema["prefixItems"]]
    fewest = schema.get("minItems", 0)
    most = max(fewest, schema.get("maxItems", fewest + 3))
    count = int(rng.integers(fewest, most + 1)) if depth < _MAX_DEPTH else fewest
    return [_value(schema.get("items", {}), rng, defs, depth + 1) for _ in range(count)]
