"""Tools from classes: the methods of a plain class are tools, and each episode has an object of its own.

    class Notebook:
        def __init__(self) -> None:
            self.pages: dict[str, str] = {}

        def write(self, page: str, text: str) -> None:
            \"\"\"Write a page.\"\"\"
            self.pages[page] = text

    class Library(ToolEnv):
        tool_classes = (Notebook,)

The class knows nothing of environments, so that it can be tested alone and used in several of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from turngym.envs.errors import ContractError
from turngym.envs.tools import Tool, is_tool

# What a constructor may name, and where it comes from in the environment whose episode begins.
_SOURCES: dict[str, Callable[[Any], Any]] = {
    "task": lambda env: env.task,
    "rng": lambda env: env.np_random,
}


def tools_of(cls: type) -> list[Tool]:
    """The tools of a class: its methods that are marked with `@tool`, or all public ones where none is marked.

    They come in the order of definition, those of the bases first; an override keeps its place.

    Raises:
        ContractError: it is no class, has no such method, has one with a parameter that no model could fill, or
            its constructor asks for what nobody has.
    """
    if not isinstance(cls, type):
        raise ContractError(f"a tool class is a class, not {cls!r}: the episode makes the object")
    _needs(cls)
    methods: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if not name.startswith("_"):
                methods[name] = value
    methods = {name: value for name, value in methods.items() if inspect.isfunction(_function(value))}
    marked = {name: value for name, value in methods.items() if is_tool(_function(value))}
    if not (chosen := marked or methods):
        raise ContractError(f"{cls.__name__} has no method to be a tool: mark one with @tool")
    return [_tool(cls, name, value) for name, value in chosen.items()]


def fresh(cls: type, env: Any) -> Any:
    """An object for the episode that begins in `env`; its constructor gets what it names: `task`, `rng`."""
    return cls(**{name: _SOURCES[name](env) for name in _needs(cls)})


@functools.cache
def _needs(cls: type) -> tuple[str, ...]:
    if cls.__init__ is object.__init__:  # type: ignore[misc]
        return ()
    needs: list[str] = []
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.name in _SOURCES:
            needs.append(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            known = " and ".join(_SOURCES)
            raise ContractError(f"tool class {cls.__name__} asks for {parameter.name!r}; it can have {known}")
    return tuple(needs)


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, staticmethod) else value


def _tool(cls: type, name: str, value: Any) -> Tool:
    def call(env: Any, /, **arguments: Any) -> Any:
        return getattr(env.tool_object(cls), name)(**arguments)

    described = Tool.of(_function(value), takes_env=not isinstance(value, staticmethod))
    return described.calling(call)
