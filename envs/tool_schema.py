"""From a typed function and its docstring to a JSON schema and a validator of its arguments."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typing_extensions
from pydantic import ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError, to_jsonable_python

from turngym.envs.errors import ContractError

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?|Source)\s*:\s*$")
_MOST_REFERENCES = 16
_ARGUMENT = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


class _Untitled(GenerateJsonSchema):
    """JSON schema without the titles that repeat each field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def arguments_of(
    function: Callable[..., Any], *, skip_first: bool, strict: bool
) -> tuple[str, dict[str, Any], Callable[[str], dict[str, Any]]]:
    """What a model must know of a function, and what checks its call.

    Args:
        function: with a type on each parameter.
        skip_first: leave the first parameter (`self`) out.
        strict: pydantic's strict mode.

    Returns:
        description; JSON schema of the arguments; what reads JSON text into the keyword arguments (those left
        out by the caller are absent, so that the function's own defaults hold) or raises ValidationError.

    Raises:
        ContractError: a parameter that no model could fill.
    """
    name = function.__name__
    summary, described = split_docstring(inspect.getdoc(function) or "")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ContractError(
            f"tool {name}: {error}; its types must be importable names of its module"
        ) from error
    fields: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[int(skip_first) :]:
        fields[parameter.name] = _field(name, parameter, hints, described.get(parameter.name))
    # A TypedDict validates straight to keyword arguments; a model class would reserve names such as `copy` or
    # `json`.
    typed_dict: Any = typing_extensions.TypedDict
    shape = typed_dict(name, fields)
    shape.__pydantic_config__ = ConfigDict(extra="forbid", strict=strict, allow_inf_nan=False)
    try:
        adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(shape)
        schema = adapter.json_schema(schema_generator=_Untitled)
    except PydanticUserError as error:
        raise ContractError(f"tool {name}: a type has no JSON schema: {error}") from error
    # Extra arguments are refused, but saying so costs tokens in every prompt.
    parameters = {key: value for key, value in schema.items() if key not in ("title", "additionalProperties")}
    parameters.setdefault("properties", {})
    return summary, parameters, adapter.validator.validate_json


def _field(tool: str, parameter: inspect.Parameter, hints: Mapping[str, Any], description: str | None) -> Any:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise ContractError(f"tool {tool}: parameter {parameter.name!r} cannot be passed by name")
    if parameter.name not in hints:
        raise ContractError(f"tool {tool}: parameter {parameter.name!r} has no type")
    annotated = hints[parameter.name]
    if description:
        annotated = Annotated[annotated, Field(description=description)]
    if parameter.default is parameter.empty:
        return annotated
    if parameter.default is None:
        return typing_extensions.NotRequired[annotated]
    if isinstance(parameter.default, FieldInfo):
        raise ContractError(
            f"tool {tool}: write `{parameter.name}: Annotated[…, Field(…)]`, not `= Field(…)`"
        )
    try:
        default = to_jsonable_python(parameter.default)
    except PydanticSerializationError:
        return typing_extensions.NotRequired[
            annotated
        ]  # no JSON value: the model is told only that it may be left out
    annotated = Annotated[annotated, Field(json_schema_extra={"default": default})]
    return typing_extensions.NotRequired[annotated]


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before any section, and each argument's description in a Google-style `Args:` section."""
    before: list[str] = []
    described: dict[str, str] = {}
    section, current, indent = "", "", None
    for line in text.splitlines():
        if match := _SECTION.match(line):
            section, indent = match[1], None
        elif not section:
            before.append(line.strip())
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            match = _ARGUMENT.match(line.strip())
            if depth <= indent and match:
                current = match[1]
                described[current] = match[2]
            elif current:
                described[current] = f"{described[current]} {line.strip()}".strip()
    return " ".join(" ".join(before).split()), described


def usage(name: str, parameters: Mapping[str, Any]) -> str:
    """How a right call looks: `calculator(a: integer, op: "+" | "-", b?: integer)`; `?` means optional."""
    required, defs = parameters.get("required", ()), definitions(parameters)
    shown = [
        f"{key}{'' if key in required else '?'}: {_kind(schema, defs)}"
        for key, schema in parameters.get("properties", {}).items()
    ]
    return f"{name}({', '.join(shown)})"


def definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The named parts of a schema, under the present or the old keyword."""
    found: Mapping[str, Any] = schema.get("$defs") or schema.get("definitions") or {}
    return found


def resolved(schema: Any, defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with references to named parts followed and the parts of `allOf` put together.

    What allows anything (true, a reference to elsewhere, one that leads back to itself) is {}.
    """
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping):
            return {}
        if "$ref" in schema:
            schema = defs.get(str(schema["$ref"]).rpartition("/")[2])
        elif "allOf" in schema:
            whole = {key: value for key, value in schema.items() if key != "allOf"}
            for part in schema["allOf"]:
                whole = _joined(whole, part if isinstance(part, Mapping) else {})
            schema = whole
        else:
            return schema
    return {}


def _joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {**one, **other}
    if "properties" in one and "properties" in other:
        both["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        both["required"] = [*one["required"], *other["required"]]
    return both


def _kind(schema: Any, defs: Mapping[str, Any]) -> str:
    schema = resolved(schema, defs)
    if "enum" in schema:
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(_kind(branch, defs) for branch in schema[union])
    if schema.get("type") == "array" and isinstance(schema.get("items"), Mapping):
        items = schema["items"]  # not followed further: a type may contain itself
        return f"array of {_type(items, 'object' if '$ref' in items else 'any')}"
    return _type(schema, "any")


def _type(schema: Mapping[str, Any], otherwise: str) -> str:
    kind = schema.get("type", otherwise)
    return " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
