"""The state that a conversation's calls change: the benchmark's own classes, called by name, never by `eval`."""

from __future__ import annotations

import ast
import copy
import functools
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from turngym.envs.builtin.bfcl.data import DOCS, package_folder
from turngym.envs.errors import MissingExtra

_MODULES: Final = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
# Arithmetic beyond these could run for hours in the process that plays; no task comes near them.
_MOST_DIGITS: Final = 1_000
_MOST_EXPONENT: Final = 1_000
_MOST_NUMBER: Final = 1e15


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the reference solution."""

    name: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


@functools.lru_cache(maxsize=4096)
def parse_call(text: str) -> Call:
    """A call such as `cd(folder='document')`, whose arguments are all literals.

    Raises:
        ValueError: it is something else.
    """
    node = ast.parse(text.strip(), mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError(f"not a call of a function: {text!r}")
    named = {word.arg: ast.literal_eval(word.value) for word in node.keywords if word.arg is not None}
    return Call(node.func.id, tuple(ast.literal_eval(value) for value in node.args), named)


@functools.cache
def _class(name: str) -> type:
    package_folder()  # says which package is missing
    try:
        module = importlib.import_module(f"{_MODULES}.{DOCS[name]}")
    except ImportError as error:
        raise MissingExtra(f'the benchmark needs {error.name}: pip install "turngym[bfcl]"') from error
    found: type = getattr(module, name)
    return found


class World:
    """Instances of the benchmark's classes in one state.

    Args:
        classes: names of those that a task uses.
        initial: the state that each begins with, by name.
        long_context: True for the long files and lists of that category.
    """

    def __init__(self, classes: Sequence[str], initial: Mapping[str, Any], *, long_context: bool) -> None:
        self.instances: dict[str, Any] = {}
        for name in classes:
            instance = _class(name)()
            if hasattr(instance, "_load_scenario"):
                instance._load_scenario(copy.deepcopy(initial.get(name, {})), long_context=long_context)
            self.instances[name] = instance

    def call(self, name: str, positional: Sequence[Any] = (), named: Mapping[str, Any] | None = None) -> str:
        """The result of a function as text. What it raises is a text too, as in the benchmark."""
        named = named or {}
        for class_name, instance in self.instances.items():
            function = None if name.startswith("_") else getattr(instance, name, None)
            if function is None:
                continue
            try:
                if class_name == "MathAPI":
                    return _calculated(function, positional, named)
                return _text(function(*positional, **named))
            except Exception as error:  # noqa: BLE001 (whatever it is, the benchmark tells it to the model)
                return f"Error during execution: {error}"
        return f"Error during execution: there is no function {name!r}"

    def has_same_state(self, other: World) -> bool:
        """True if all public attributes are equal."""
        return all(
            _public(instance) == _public(other.instances[name]) for name, instance in self.instances.items()
        )


def _calculated(function: Any, positional: Sequence[Any], named: Mapping[str, Any]) -> str:
    """A calculation within bounds. It may set mpmath's precision for the whole process: that is set back."""
    import mpmath  # a dependency of this class alone

    _check_size([*positional, *named.values()], _MOST_NUMBER)
    _check_size([named.get("precision", 0)], _MOST_DIGITS)
    _check_size(
        [named.get("exponent", 0), *positional[1:2]], _MOST_EXPONENT if function.__name__ == "power" else 1e15
    )
    digits = mpmath.mp.dps
    try:
        return _text(function(*positional, **named))
    finally:
        mpmath.mp.dps = digits


def _check_size(values: Sequence[Any], most: float) -> None:
    for value in values:
        if isinstance(value, (list, tuple)):
            _check_size(value, most)
        elif isinstance(value, (int, float)) and abs(value) > most:
            raise ValueError(f"a number beyond {most:g} is not supported")


def _public(instance: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(instance).items() if not name.startswith("_")}


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)
