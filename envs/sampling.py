"""Random replies, for exploration and for checking: words, listed choices, well-typed tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant

_WORDS = ("yes", "no", "0", "7", "42", "red", "north", "open", "help", "done")
_MAX_DEPTH = 4


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
    """A random value that fits a JSON schema (types, enumerations, bounds, nesting; no patterns)."""
    return _value(schema, rng, schema.get("$defs", {}), 0)


def _value(schema: Mapping[str, Any], rng: np.random.Generator, defs: Mapping[str, Any], depth: int) -> Any:
    if "$ref" in schema:
        return _value(defs[schema["$ref"].rpartition("/")[2]], rng, defs, depth)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][int(rng.integers(len(schema["enum"])))]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            # Deep down the last branch is taken: for optional and recursive types that is the one that ends.
            branches = schema[union] if depth < _MAX_DEPTH else schema[union][-1:]
            return _value(branches[int(rng.integers(len(branches)))], rng, defs, depth + 1)
    kind = schema.get("type", "string")
    if kind == "object":
        return _object(schema, rng, defs, depth)
    if kind == "array":
        return _array(schema, rng, defs, depth)
    if kind == "integer":
        low = schema.get("minimum", schema.get("exclusiveMinimum", -11) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 100) + 1) - 1)
        return int(rng.integers(low, high + 1))
    if kind == "number":
        low = schema.get("minimum", schema.get("exclusiveMinimum", -10.0))
        high = schema.get("maximum", schema.get("exclusiveMaximum", max(low, 0.0) + 100.0))
        return float(rng.uniform(low, high))
    if kind == "boolean":
        return bool(rng.integers(2))
    if kind == "null":
        return None
    text = random_words(rng)
    return (text + "x" * schema.get("minLength", 0))[: schema.get("maxLength")]


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
    count = (
        int(rng.integers(fewest, schema.get("maxItems", fewest + 3) + 1)) if depth < _MAX_DEPTH else fewest
    )
    return [_value(schema.get("items", {}), rng, defs, depth + 1) for _ in range(count)]
