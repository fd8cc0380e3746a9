from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from turngym.envs.errors import ContractError
from turngym.envs.tool_schema import split_docstring, usage
from turngym.envs.tools import Tool


@dataclass
class Point:
    x: int
    y: int = 0


def move(to: Point, how: Literal["fast", "slow"] = "slow", title: str | None = None, json: int = 3) -> str:
    """Move there.

    Even far.

    Args:
        to: where,
            exactly.
        how (str): the speed: fast or slow

    Returns:
        nothing: of use.
    """
    return "moved"


def test_schema_of_everything():
    spec = Tool.of(move).spec
    assert spec.name == "move"
    assert spec.function.description == "Move there. Even far."
    parameters = spec.function.parameters
    assert parameters["type"] == "object"
    assert parameters["required"] == ["to"]
    assert parameters["properties"] == {
        "to": {"$ref": "#/$defs/Point", "description": "where, exactly."},
        "how": {"enum": ["fast", "slow"], "type": "string", "default": "slow",
                "description": "the speed: fast or slow"},
        "title": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "json": {"type": "integer", "default": 3},
    }  # fmt: skip


def test_validated_arguments_are_python_objects():
    assert Tool.of(move).read('{"to": {"x": 1}}') == {"to": Point(1, 0)}


def test_usage_line():
    assert (
        Tool.of(move).usage
        == 'move(to: object, how?: "fast" | "slow", title?: string | null, json?: integer)'
    )


def test_annotated_fields_count():
    def pick(n: Annotated[int, Field(ge=1, description="which")], many: list[int]) -> int:
        return n

    properties = Tool.of(pick).spec.function.parameters["properties"]
    assert properties["n"] == {"type": "integer", "minimum": 1, "description": "which"}
    assert Tool.of(pick).usage == "pick(n: integer, many: array of integer)"


def test_defaults_without_json_form_are_left_out():
    def pick(n: Any = object()) -> int:  # noqa: B008
        return 0

    assert Tool.of(pick).spec.function.parameters["properties"] == {"n": {}}


def bad_untyped(a):
    return a


def bad_star(*a: int):
    return a


def bad_keywords(**a: int):
    return a


def bad_position(a: int, /):
    return a


def bad_field(a: int = Field(ge=1)):
    return a


def bad_name(a: Missing):
    return a


def bad_type(a: Tool):
    return a


@pytest.mark.parametrize(
    "function", [bad_untyped, bad_star, bad_keywords, bad_position, bad_field, bad_name, bad_type]
)
def test_functions_that_no_model_could_call_are_refused(function):
    with pytest.raises(ContractError, match=f"tool {function.__name__}"):
        Tool.of(function)


def test_split_docstring():
    text = "One.\nTwo.\n\nArgs:\n    a: first\n    b (int): second\n        line: two\n\nRaises:\n    c: no."
    assert split_docstring(text) == ("One. Two.", {"a": "first", "b": "second line: two"})
    assert split_docstring("") == ("", {})
    assert split_docstring("Args:\n    a: only") == ("", {"a": "only"})


def test_usage_of_schemas_from_anywhere():
    node = {
        "definitions": {"node": {"type": "object"}},
        "properties": {"next": {"$ref": "#/definitions/node"}},
    }
    assert usage("walk", node) == "walk(next?: object)"
    assert usage("nothing", {"type": "object"}) == "nothing()"
    odd = {
        "properties": {
            "a": True, "b": {"type": ["string", "null"]}, "c": {"$ref": "elsewhere.json"},
            "d": {"type": "array", "items": {"type": ["integer", "null"]}}, "e": {"type": "array", "items": False},
            "f": {"allOf": [{"enum": [1, 2]}]}, "g": {"$ref": "#/$defs/loop"},
        },
        "$defs": {"loop": {"$ref": "#/$defs/loop"}},
    }  # fmt: skip
    assert usage("odd", odd) == (
        "odd(a?: any, b?: string | null, c?: any, d?: array of integer | null, e?: array, f?: 1 | 2, g?: any)"
    )
