from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from turngym.envs.sampling import random_action, random_value
from turngym.envs.tools import Tool


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)
    parent: Tree | None = None


def everything(
    a: int,
    b: float,
    c: str,
    d: bool,
    e: Literal["x", 2],
    f: Colour,
    g: list[int],
    h: tuple[int, str],
    i: Tree,
    j: int | None,
    k: Literal["only"],
    bounded: Annotated[int, Field(ge=3, lt=6)],
    short: Annotated[str, Field(min_length=2, max_length=4)],
    anything: Any = None,
) -> None:
    """All sorts of types."""


EVERYTHING = Tool.of(everything)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_random_arguments_fit_their_schema(seed):
    rng = np.random.default_rng(seed)
    arguments = random_value(EVERYTHING.spec.function.parameters, rng)
    EVERYTHING.read(json.dumps(arguments))  # raises if they do not


def test_random_actions():
    rng = np.random.default_rng(0)
    assert random_action(rng, choices=["only"]) == "only"
    assert isinstance(random_action(rng), str)
    kinds = {type(random_action(rng, [EVERYTHING.spec])) for _ in range(40)}
    assert len(kinds) == 2


FOREIGN = (
    {"type": ["integer", "null"]},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 4.5},
    {"type": "integer", "minimum": -(2**80), "maximum": 2**80},
    {"type": "number", "minimum": 5, "exclusiveMaximum": True, "exclusiveMinimum": False},
    {"allOf": [{"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}, {"required": ["b"]}],
     "properties": {"b": {"enum": [2, "x"]}}, "required": []},
    {"definitions": {"node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}},
     "$ref": "#/definitions/node"},
    {"type": "array", "items": True, "minItems": 2, "maxItems": 1},
    {"properties": {"any": True, "none": {}, "far": {"$ref": "https://example.invalid/x.json"}}},
    {"$defs": {"loop": {"$ref": "#/$defs/loop"}}, "$ref": "#/$defs/loop"},
    {"oneOf": [], "enum": []},
    {},
)  # fmt: skip


def test_schemas_from_anywhere_get_values():
    rng = np.random.default_rng(0)
    for schema in FOREIGN:
        for _ in range(20):
            json.dumps(random_value(schema, rng))
    values = [random_value(FOREIGN[0], rng) for _ in range(20)]
    assert {type(value) for value in values} == {int, type(None)}
    assert {random_value(FOREIGN[1], rng) for _ in range(20)} == {4}
    assert all(abs(random_value(FOREIGN[2], rng)) <= 2**53 for _ in range(20))
    joined = [random_value(FOREIGN[4], rng) for _ in range(20)]
    assert all(value["a"] == 1 and value["b"] in (2, "x") for value in joined)
