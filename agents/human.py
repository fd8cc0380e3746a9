"""A person as the agent: what is typed becomes a message, and a call of a tool where it is written like one.

calculator(a=1, op="+", b=2)                                   a call; positions may stand for names
{"name": "calculator", "arguments": {"a": 1, "op": "+", "b": 2}}   the same; a list makes several
look(1); look(2)                                               two calls in one message
52                                                             anything else is said
> calculator(a=1)                                              said, although it looks like a call
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from turngym.agents.errors import AgentError
from turngym.agents.protocols import EpisodeStart, Player
from turngym.agents.types import Action
from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant

_JSON_NAMES: Final = {"true": True, "false": False, "null": None}
_BLOCK: Final = '"""'


class GaveUp(AgentError, RuntimeError):
    """The person has had enough."""


class NotACall(ValueError):
    """What was typed begins like a call, and is none; the message says why."""


class HumanAgent:
    """Asks a person for each message. One episode at a time.

    Args:
        read: gives the next line that was typed, given the prompt to show before it; raises EOFError at the end of
            the input.
        show: shows new messages of the environment.
        complain: shows why a line could not be taken; the person is then asked again.
    """

    def __init__(
        self,
        read: Callable[[str], str],
        show: Callable[[Sequence[Message]], None],
        complain: Callable[[str], None],
    ) -> None:
        self.read = read
        self.show = show
        self.complain = complain

    @property
    def name(self) -> str:
        """The spec that names it."""
        return "human"

    def start(self, episode: EpisodeStart) -> Player:
        """A player for one new episode."""
        return _HumanPlayer(self, episode.tools)

    async def close(self) -> None:
        """Nothing to release."""


class _HumanPlayer:
    def __init__(self, agent: HumanAgent, tools: Sequence[ToolSpec]) -> None:
        self._agent = agent
        self._tools = tools
        self._calls = 0

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:  # noqa: ARG002
        self._agent.show(new_messages)
        while True:
            try:
                text = read_text(self._agent.read)
            except EOFError as end:
                raise GaveUp("the person gave up") from end
            try:
                message = message_of(text, self._tools, first_id=self._calls)
            except NotACall as error:
                self._agent.complain(str(error))
                continue
            self._calls += len(message.tool_calls)
            return Action(message)

    def context_size(self, new_messages: Sequence[Message]) -> int | None:  # noqa: ARG002
        return None

    def final_context(self, new_messages: Sequence[Message]) -> tuple[tuple[int, ...], bool]:  # noqa: ARG002
        return (), False

    async def close(self) -> None:
        return None


def read_text(read: Callable[[str], str]) -> str:
    """One message. A line that ends in a backslash goes on; a line of three quotes begins a text, another ends it.

    Raises:
        EOFError: the input ended.
    """
    line = read("> ")
    if line.strip() == _BLOCK:
        lines: list[str] = []
        while (line := read("… ")).strip() != _BLOCK:
            lines.append(line)
        return "\n".join(lines)
    lines = []
    while line.endswith("\\"):
        lines.append(line[:-1])
        line = read("… ")
    return "\n".join([*lines, line])


def message_of(text: str, tools: Sequence[ToolSpec], *, first_id: int = 0) -> Message:
    """What a person typed as an assistant's message.

    Raises:
        NotACall: it begins like a call of one of the tools, and is none.
    """
    if text.lstrip().startswith(">"):
        return assistant(text.lstrip()[1:].removeprefix(" "))
    known = {tool.name: tool for tool in tools}
    stripped = text.strip()
    if known and stripped.startswith(("{", "[")):
        calls = _json_calls(stripped)
    else:
        name = stripped.partition("(")[0].strip()
        calls = _python_calls(stripped, known) if "(" in stripped and name in known else []
    if not calls:
        return assistant(text)
    return assistant(
        None,
        *(
            ToolCall.of(name, arguments, id=f"call_{first_id + number}")
            for number, (name, arguments) in enumerate(calls)
        ),
    )


def _json_calls(text: str) -> list[tuple[str, Mapping[str, Any] | str]]:
    """The calls of a JSON text; none if it is no JSON, or other JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = data if isinstance(data, list) else [data]
    is_call = all(isinstance(one, dict) and set(one) == {"name", "arguments"} for one in listed)
    if not is_call or not all(isinstance(one["name"], str) for one in listed):
        return []
    return [
        (
            one["name"],
            one["arguments"] if isinstance(one["arguments"], dict) else json.dumps(one["arguments"]),
        )
        for one in listed
    ]


def _python_calls(text: str, tools: Mapping[str, ToolSpec]) -> list[tuple[str, Mapping[str, Any] | str]]:
    """Calls that are written as in Python, with literals as arguments.

    Raises:
        NotACall: they are not.
    """
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise NotACall(f"this is no call: {why}. Write > before it to say it as it is") from error
    return [_python_call(statement, tools) for statement in statements]


def _python_call(statement: ast.stmt, tools: Mapping[str, ToolSpec]) -> tuple[str, Mapping[str, Any]]:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id not in tools:
        known = ", ".join(tools)
        raise NotACall(f"only calls may stand beside a call ({known}). Write > before it to say it as it is")
    name = call.func.id
    order = list(tools[name].function.parameters.get("properties", {}))
    if len(call.args) > len(order):
        raise NotACall(f"{name} takes {len(order)} arguments, not {len(call.args)}")
    arguments = {key: _literal(value) for key, value in zip(order, call.args, strict=False)}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise NotACall(f"{name}: {keyword.arg or '**'} is given twice, or in no way that a tool knows")
        arguments[keyword.arg] = _literal(keyword.value)
    return name, arguments


def _literal(node: ast.expr) -> Any:
    """The value of a literal, in Python's or in JSON's spelling."""
    names = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    if names and names <= set(_JSON_NAMES):
        node = _JsonNames().visit(node)
    try:
        value = ast.literal_eval(node)
        json.dumps(value, allow_nan=False)
    except (ValueError, TypeError) as error:
        shown = ast.unparse(node)
        raise NotACall(
            f"{shown} is no literal: write a number, a quoted text, a list or a dictionary"
        ) from error
    return value


class _JsonNames(ast.NodeTransformer):
    """`true`, `false` and `null` as Python spells them."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A constant in place of a name."""
        return ast.copy_location(ast.Constant(_JSON_NAMES[node.id]), node)
