"""Rewards for the form of a reply, whatever it says: strict, and about the whole text.

    ToolEnv(tasks=…, rewards=[correct, reward(weight=0.1)(has_tags("think", "answer"))])

Each gives a reward function: 1 if the text of the last assistant message has the form, else 0. With
`reward(when="turn", …)` every message is judged. What a model's chat template separates as reasoning is not in
the text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter

from turngym.envs.errors import ContractError
from turngym.envs.messages import Message

Form = Callable[[Message], float]


def matches(pattern: str | re.Pattern[str]) -> Form:
    """The whole text matches a regular expression (flags belong into the pattern: `(?s)…`)."""
    compiled = re.compile(pattern)
    return _form("matches", lambda text: compiled.fullmatch(text) is not None)


def has_tags(*tags: str) -> Form:
    """The text is these tags in this order, each once and not empty, and nothing but white space around them.

    `has_tags("think", "answer")` wants `<think>…</think> <answer>…</answer>`; a tag inside a tag, or one that
    comes twice, is wrong.

    Raises:
        ContractError: no tag, a tag twice, or one that is no name.
    """
    if not tags or len(set(tags)) < len(tags) or not all(re.fullmatch(r"[\w.-]+", tag) for tag in tags):
        raise ContractError(f"has_tags wants different names, not {', '.join(map(repr, tags)) or 'none'}")
    known = "|".join(map(re.escape, tags))
    inside = rf"(?:(?!</?(?:{known})>).)+"
    parts = [rf"<{tag}>(?!\s*</{tag}>){inside}</{tag}>" for tag in map(re.escape, tags)]
    whole = re.compile(r"\s*" + r"\s*".join(parts) + r"\s*", re.DOTALL)
    return _form("has_tags", lambda text: whole.fullmatch(text) is not None)


def json_object(shape: Any = None) -> Form:
    """The text is one JSON object and nothing else: no fence around it, no key twice, no NaN.

    Args:
        shape: what it must look like: a pydantic model, a TypedDict or a dataclass, read in strict mode; None for
            any object.
    """
    adapter = None if shape is None else TypeAdapter(shape)

    def is_right(text: str) -> bool:
        try:
            strict_object(text)
            if adapter is not None:
                adapter.validate_json(text, strict=True)
        except (ValueError, RecursionError):
            return False
        return True

    return _form("json_object", is_right)


def strict_object(text: str) -> dict[str, Any]:
    """The JSON object that a text is.

    Raises:
        ValueError: it is anything else, or has a key twice, or a number that JSON does not have.
        RecursionError: it is nested too deeply.
    """
    value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    if not isinstance(value, dict):
        raise ValueError("it is JSON, but no object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key comes twice")
    return found


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _form(name: str, is_right: Callable[[str], bool]) -> Form:
    def form(action: Message) -> float:
        return float(is_right(action.text))

    form.__name__ = form.__qualname__ = name
    return form
