"""Tools from typed Python functions: the schema that the model is shown, and an answer to every call it
makes.

A wrong call never raises: the answer says what was wrong and what a right call looks like.

    @tool
    def lookup(country: str) -> str:
        \"\"\"Find the capital of a country.

        Args:
            country: its English name.
        \"\"\"
        return CAPITALS[country]
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar, overload

from pydantic import ValidationError
from pydantic_core import to_json

from turngym.envs.errors import ContractError, EnvError
from turngym.envs.messages import FunctionSpec, Message, ToolCall, ToolSpec
from turngym.envs.tool_schema import arguments_of, usage
from turngym.sandboxes.errors import FileError, SandboxError

Function = TypeVar("Function", bound=Callable[..., Any])

_MARK = "__turngym_tool__"
_LONGEST_ERROR = 500
_BROKE = (EnvError, SandboxError)


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What `@tool` was told."""

    name: str | None = None
    """Name for the model; default: the function's."""
    description: str | None = None
    """What it does, for the model; default: the docstring up to its first section."""
    strict: bool = True
    """True: a value of the wrong JSON type ("3" for an integer) is refused. False: converted if it can be."""


@overload
def tool(function: Function, /) -> Function: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, strict: bool = True
) -> Callable[[Function], Function]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool = True,
) -> Function | Callable[[Function], Function]:
    """Mark a function or method as a tool; it stays the function it was.

    Args:
        function: every parameter typed; `def` or `async def`. Google-style `Args:` become the arguments'
            descriptions.
        name: for the model; default: the function's.
        description: for the model; default: the docstring up to its first section.
        strict: refuse values of the wrong JSON type ("3", 3.0 or true for an integer) instead of converting.
            NaN and infinities, which are no JSON, are refused either way.
    """

    def mark(marked: Function) -> Function:
        setattr(
            marked.__func__ if isinstance(marked, staticmethod) else marked,
            _MARK,
            ToolOptions(name, description, strict),
        )
        return marked

    return mark if function is None else mark(function)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function ready to be called by a model."""

    spec: ToolSpec
    """What the model is shown."""
    function: Callable[..., Any]
    """The function; it takes the environment first where `takes_env` is True."""
    read: Callable[[str], dict[str, Any]]
    """JSON text of the arguments → keyword arguments; raises ValidationError."""
    takes_env: bool
    """True for a method of the environment: one `Tool` serves all instances and their forks."""
    is_async: bool
    """True if it must be awaited."""

    @classmethod
    def of(cls, function: Callable[..., Any], *, takes_env: bool = False) -> Tool:
        """A tool from a typed function, marked or not.

        Raises:
            ContractError: a parameter has no type, an unusable one, or no name by which a model could pass
                it.
        """
        if isinstance(function, type):
            raise ContractError(f"{function.__name__} is a class: pass it as tool_classes=[…]")
        options: ToolOptions = getattr(function, _MARK, ToolOptions())
        name = options.name or function.__name__
        description, parameters, read = arguments_of(function, skip_first=takes_env, strict=options.strict)
        spec = FunctionSpec(name=name, description=options.description or description, parameters=parameters)
        return cls(ToolSpec(function=spec), function, read, takes_env, inspect.iscoroutinefunction(function))

    def calling(self, function: Callable[..., Any]) -> Tool:
        """The same tool done by another function, which takes the environment first."""
        return dataclasses.replace(self, function=function, takes_env=True)

    @property
    def usage(self) -> str:
        """How a right call looks, in one line."""
        return usage(self.spec.name, self.spec.function.parameters)

    def __deepcopy__(self, memo: object) -> Tool:
        return self  # nothing in it changes

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the tool {self.spec.name!r} holds code and is not pickled: send the environment's id and arguments, "
            "and make it again"
        )


class Toolbox:
    """The tools of an environment, by name; answers every call."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for one in tools:
            if one.spec.name in self._tools:
                raise ContractError(f"two tools are called {one.spec.name!r}")
            self._tools[one.spec.name] = one
        self.specs: tuple[ToolSpec, ...] = tuple(one.spec for one in self._tools.values())
        """What the model is shown, in the order of definition."""
        self.is_async: bool = any(one.is_async for one in self._tools.values())
        """True if any tool must be awaited."""

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def only(self, names: Iterable[str]) -> Toolbox:
        """A box with some of the tools.

        Raises:
            ValueError: a name is unknown.
        """
        wanted = list(names)
        for name in wanted:
            if name not in self._tools:
                raise ValueError(f"no tool {name!r}; there are {', '.join(self._tools)}")
        return Toolbox(one for name, one in self._tools.items() if name in wanted)

    async def answer(self, env: Any, call: ToolCall) -> tuple[Message, bool]:
        """The tool message that answers a call, and whether the call was in order. Waits only for async
        tools.

        Raises:
            EnvError, SandboxError: the tool raised one: something under it broke. Other exceptions, and a
                FileError of the sandbox (a path that the model chose), are told to the model.
        """
        name = call.function.name
        one = self._tools.get(name)
        if one is None or call.parse_error is not None:
            return self._reply(call, self._misaddressed(call)), False
        try:
            arguments = _read(one.read, call.function.arguments)
        except (ValueError, RecursionError) as error:  # json's own reader recurses
            return self._reply(call, f"Error: {_complaint(error)} Right: {one.usage}"), False
        try:
            result = one.function(env, **arguments) if one.takes_env else one.function(**arguments)
            if one.is_async:
                result = await result
            content = result if type(result) is str else _text(result)
        except (Exception, SystemExit) as error:
            if isinstance(error, _BROKE) and not isinstance(error, FileError):
                raise
            return self._reply(call, f"Error: {name} failed: {_one_line(error)}"), False
        return self._reply(call, content), True

    def _reply(self, call: ToolCall, content: str) -> Message:
        if not content.isascii():
            # Half of a surrogate pair (undecodable bytes become such) is no text that a file or a server
            # would take.
            content = content.encode("utf-8", "replace").decode("utf-8")
        return Message(role="tool", content=content, tool_call_id=call.id, name=call.function.name or None)

    def _misaddressed(self, call: ToolCall) -> str:
        one = self._tools.get(call.name)
        right = (
            f"Right: {one.usage}"
            if one
            else f"Tools: {'; '.join(t.usage for t in self._tools.values()) or 'none'}"
        )
        if call.parse_error is not None:
            return f"Error: this is not a well-formed tool call: {call.parse_error[:_LONGEST_ERROR]}. {right}"
        nearest = difflib.get_close_matches(call.name, self._tools, n=1)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        return f"Error: there is no tool {call.name[:100]!r}.{hint} {right}"


def is_tool(function: object) -> bool:
    """True if it was marked with `@tool`."""
    return hasattr(function, _MARK)


def class_tools(cls: type) -> list[Tool]:
    """The tools that a class and its bases mark, in order of definition; an override keeps its place."""
    found: dict[str, Tool] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            function = value.__func__ if isinstance(value, staticmethod) else value
            if is_tool(function):
                found[name] = Tool.of(function, takes_env=not isinstance(value, staticmethod))
            elif name in found:
                del found[name]  # overridden by something that is no tool
    return list(found.values())


def _read(read: Callable[[str], dict[str, Any]], text: str) -> dict[str, Any]:
    """The keyword arguments in a call's JSON text.

    Raises:
        ValueError: it is not JSON, not an object, or does not fit the schema.
    """
    if "NaN" in text or "Infinity" in text:
        json.loads(text, parse_constant=_refuse_constant)  # raises unless they stand inside a string
    return read(text or "{}")  # servers send "" for calls without arguments


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number.")


def _complaint(error: ValueError | RecursionError) -> str:
    """What was wrong with the arguments, in the model's terms."""
    if isinstance(error, RecursionError):
        return "the arguments are nested too deeply."
    if not isinstance(error, ValidationError):
        return f"the arguments are not valid JSON: {_one_line(error)}"
    parts = []
    for item in error.errors(include_url=False, include_context=False)[:3]:
        where = ".".join(str(step) for step in item["loc"])
        if item["type"] == "json_invalid":
            return f"the arguments are not valid JSON: {item['msg'].removeprefix('Invalid JSON: ')}."
        if item["type"] == "string_unicode":
            return "the arguments are not valid Unicode text."
        if not where:
            return f"the arguments must be a JSON object, not {_shown(item['input'])}."
        if item["type"] == "missing":
            parts.append(f"argument {where!r} is missing.")
        elif item["type"] == "extra_forbidden":
            parts.append(f"there is no argument {where!r}.")
        else:
            parts.append(f"argument {where!r}: {item['msg']}, got {_shown(item['input'])}.")
    return " ".join(parts)


def _shown(value: Any) -> str:
    text = to_json(value, fallback=str).decode()
    return text if len(text) <= 80 else text[:77] + "..."


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    named = text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
    return named[:_LONGEST_ERROR]


def _text(result: Any) -> str:
    """A tool's result as text: strings as they are, nothing as "done", all else as JSON."""
    if type(result) is int:
        return str(result)
    if isinstance(result, str):
        return str(result)
    if result is None:
        return "done"
    if inspect.isawaitable(result):
        raise ContractError("a tool returned something to await: write it with `async def`")
    return to_json(result, fallback=str, inf_nan_mode="constants").decode()
