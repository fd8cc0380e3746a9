"""From an assistant's text to its message: thinking apart, tool calls found, broken calls kept as written.

`FORMATS` is the table of ways to write a tool call. A format knows how to find calls, how to write one, and
how to explain itself to a model whose chat template says nothing about tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from turngym.envs.messages import FunctionCall, Message, ToolCall, ToolSpec

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
RESULT_OPEN, RESULT_CLOSE = "<tool_response>", "</tool_response>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"
TAGS = (CALL_OPEN, CALL_CLOSE, RESULT_OPEN, RESULT_CLOSE, THINK_OPEN, THINK_CLOSE)
"""What gives a text its structure: nobody but the model and its template may write these as tokens."""

_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """One way to write tool calls as text."""

    name: str
    """Its name in the table."""
    parse: Callable[[str], tuple[str, tuple[ToolCall, ...]]]
    """Text to the text around the calls and the calls, malformed ones included, numbered `call_0`, …"""
    write: Callable[[str, str], str]
    """Name and JSON arguments to the text of a call."""
    write_result: Callable[[str], str]
    """A tool's answer as the text of a user's message."""
    explain: Callable[[Sequence[ToolSpec]], str]
    """What a system message says about the tools and how to call them."""


def parse_reply(text: str, tool_format: ToolFormat, *, thinks: bool, thinking_opened: bool) -> Message:
    """The assistant's message in a sampled text (its end-of-turn token already removed).

    Args:
        text: what was sampled.
        tool_format: how calls are written.
        thinks: True if the chat template knows thinking; otherwise `<think>` is ordinary content.
        thinking_opened: True if the generation prompt has already written `<think>`.
    """
    reasoning, rest = split_reasoning(text, opened=thinking_opened) if thinks else (None, text)
    content, calls = tool_format.parse(rest)
    return Message(
        role="assistant",
        content=content or None if calls else content,
        reasoning_content=reasoning or None,
        tool_calls=calls,
    )


def split_reasoning(text: str, *, opened: bool) -> tuple[str | None, str]:
    """Thinking (None if there is none) and the rest of a text. Thinking that never ends is all thinking."""
    if not opened:
        start = text.lstrip()
        if not start.startswith(THINK_OPEN):
            return None, text
        text = start[len(THINK_OPEN) :]
    elif text.lstrip().startswith(THINK_OPEN):
        text = text.lstrip()[len(THINK_OPEN) :]
    reasoning, _, rest = text.partition(THINK_CLOSE)
    return reasoning.strip("\n"), rest.lstrip("\n")


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """A call's arguments as a mapping; None if the call is malformed."""
    if not is_well_formed(call):
        return None
    arguments: dict[str, Any] = json.loads(call.function.arguments)
    return arguments


def is_well_formed(call: ToolCall) -> bool:
    """True if the call names a tool and its arguments are a JSON object."""
    return call.parse_error is None and bool(call.name) and _is_object(call.function.arguments)


@lru_cache(maxsize=4096)
def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


# --- Hermes / Qwen: <tool_call>{"name": …, "arguments": {…}}</tool_call>


def _parse_hermes(text: str) -> tuple[str, tuple[ToolCall, ...]]:
    around: list[str] = []
    calls: list[ToolCall] = []
    at = 0
    while (start := text.find(CALL_OPEN, at)) >= 0:
        around.append(text[at:start])
        at, call = _one_hermes_call(text, start, f"call_{len(calls)}")
        calls.append(call)
    if not calls:
        return text, ()
    around.append(text[at:])
    return "\n".join(piece.strip() for piece in around if piece.strip()), tuple(calls)


def _one_hermes_call(text: str, start: int, id: str) -> tuple[int, ToolCall]:
    """The call whose opening tag is at `start`, and where the text goes on after it."""
    inner = _skip_space(text, start + len(CALL_OPEN))
    try:
        # The JSON decides where the call ends, so that a closing tag inside a string argument does no harm.
        end = _skip_space(text, _DECODER.raw_decode(text, inner)[1])
        error = (
            None
            if text.startswith(CALL_CLOSE, end)
            else f"text after the JSON of the call, before {CALL_CLOSE}"
        )
    except (ValueError, RecursionError) as broken:
        end, error = inner, f"the call is not valid JSON: {broken or 'nested too deeply'}"
    if error is None:
        return end + len(CALL_CLOSE), hermes_call(
            text[inner:end].rstrip(), id, raw=text[start : end + len(CALL_CLOSE)]
        )
    close = text.find(CALL_CLOSE, end)
    reopened = text.find(CALL_OPEN, end)
    if close < 0 or 0 <= reopened < close:
        stop = reopened if reopened >= 0 else len(text)
        return stop, _malformed(text[start:stop].rstrip(), id, f"the call was never closed with {CALL_CLOSE}")
    stop = close + len(CALL_CLOSE)
    return stop, _malformed(text[start:stop], id, error)


def hermes_call(body: str, id: str, *, raw: str) -> ToolCall:
    """The call in a JSON text `{"name": …, "arguments": {…}}`, its arguments kept as they were written.

    Args:
        body: the JSON text.
        id: id of the call.
        raw: what a malformed call keeps as its arguments.
    """
    try:
        members = dict(_members(body))
    except (ValueError, RecursionError):
        return _malformed(raw, id, 'a call is a JSON object such as {"name": "tool", "arguments": {}}')
    name = json.loads(members["name"]) if "name" in members else None
    if not isinstance(name, str) or not name:
        return _malformed(raw, id, 'the call has no "name"')
    arguments = members.get("arguments", "{}")
    value = json.loads(arguments)
    if isinstance(value, str):
        # Some models write the arguments as OpenAI's API does: JSON inside a string.
        arguments = value
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, dict):
        return _malformed(raw, id, 'the "arguments" are not a JSON object', name)
    return ToolCall(id=id, function=FunctionCall(name=name, arguments=arguments))


def _members(body: str) -> Iterator[tuple[str, str]]:
    """Names and value *texts* of a JSON object, as written. ValueError if the text is not one object."""
    at = _skip_space(body, 0)
    if not body.startswith("{", at):
        raise ValueError("not a JSON object")
    at = _skip_space(body, at + 1)
    while not body.startswith("}", at):
        key, at = _DECODER.raw_decode(body, at)
        at = _skip_space(body, at)
        if not isinstance(key, str) or not body.startswith(":", at):
            raise ValueError("not a JSON object")
        start = _skip_space(body, at + 1)
        _, at = _DECODER.raw_decode(body, start)
        yield key, body[start:at]
        at = _skip_space(body, at)
        if body.startswith(",", at):
            at = _skip_space(body, at + 1)
        elif not body.startswith("}", at):
            raise ValueError("not a JSON object")


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def _malformed(raw: str, id: str, error: str, name: str = "") -> ToolCall:
    return ToolCall(id=id, function=FunctionCall(name=name, arguments=raw), parse_error=error)


def _write_hermes(name: str, arguments: str) -> str:
    quoted = json.dumps(name, ensure_ascii=False)
    return f'{CALL_OPEN}\n{{"name": {quoted}, "arguments": {arguments}}}\n{CALL_CLOSE}'


def _write_hermes_result(content: str) -> str:
    return f"{RESULT_OPEN}\n{content}\n{RESULT_CLOSE}"


def _explain_hermes(tools: Sequence[ToolSpec]) -> str:
    lines = "\n".join(json.dumps(tool.wire()["function"], ensure_ascii=False) for tool in tools)
    return (
        f"You can use tools. Each line below describes one of them as JSON:\n<tools>\n{lines}\n</tools>\n\n"
        "To use a tool, write its name and its arguments as JSON between tags, once for each use:\n"
        f'{CALL_OPEN}\n{{"name": "tool name", "arguments": {{"argument": "value"}}}}\n{CALL_CLOSE}\n'
        f"The answer comes between {RESULT_OPEN} and {RESULT_CLOSE}."
    )


HERMES = ToolFormat("hermes", _parse_hermes, _write_hermes, _write_hermes_result, _explain_hermes)

FORMATS: Mapping[str, ToolFormat] = {HERMES.name: HERMES}
"""Every known format by name; the first is the one that is explained where a template has none."""
