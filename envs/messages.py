"""Chat messages, tool calls and tool descriptions in the OpenAI wire format, as frozen records.

`message.wire()` is what an OpenAI-compatible server or a chat template takes; `Message.from_wire` reads it
back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Role = Literal["system", "user", "assistant", "tool"]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FunctionCall(_Record):
    """The name and arguments of a tool call."""

    name: str
    """Name of the tool; empty where the text could not be parsed far enough to tell."""
    arguments: str
    """JSON text exactly as the model wrote it (the whole raw text of a malformed call)."""


class ToolCall(_Record):
    """One call of a tool, well-formed or not: a malformed call is kept and answered, never dropped."""

    id: str
    """Unique within the conversation; the tool message that answers it repeats it."""
    type: Literal["function"] = "function"
    """Always "function" in this format."""
    function: FunctionCall
    """What is called, with which arguments."""
    parse_error: str | None = None
    """Why the model's text was not a well-formed call; None if it was. Not part of the wire format."""

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any] | str, *, id: str = "call_0") -> ToolCall:
        """A call from a name and arguments (a mapping is written as JSON)."""
        text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)
        return cls(id=id, function=FunctionCall(name=name, arguments=text))

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.function.name


class Message(_Record):
    """One chat message."""

    role: Role
    """Who speaks."""
    content: str | None = None
    """The text; None where an assistant only calls tools."""
    reasoning_content: str | None = None
    """The assistant's thinking, where the model's format separates it."""
    tool_calls: tuple[ToolCall, ...] = ()
    """The assistant's calls, in order."""
    tool_call_id: str | None = None
    """On a tool message: the id of the call that it answers."""
    name: str | None = None
    """On a tool message: the tool's name; elsewhere an optional speaker name."""

    @property
    def text(self) -> str:
        """The content, with None read as empty."""
        return self.content or ""

    def wire(self) -> dict[str, Any]:
        """The message as OpenAI's API and chat templates spell it: absent fields left out, no extensions."""
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.reasoning_content is not None:
            out["reasoning_content"] = self.reasoning_content
        if self.tool_calls:
            out["tool_calls"] = [
                {
                    "id": c.id,
                    "type": "function",
                    "function": {"name": c.name, "arguments": c.function.arguments},
                }
                for c in self.tool_calls
            ]
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            out["name"] = self.name
        return out

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Message:
        """Read an OpenAI-style dictionary; keys that this format does not know are refused."""
        return cls.model_validate({k: v for k, v in data.items() if v is not None or k == "content"})


class FunctionSpec(_Record):
    """Name, purpose and JSON schema of a tool."""

    name: str
    """The name by which it is called."""
    description: str = ""
    """What it does, for the model."""
    parameters: dict[str, Any]
    """JSON schema of its arguments."""


class ToolSpec(_Record):
    """The description of a tool that is shown to the model."""

    type: Literal["function"] = "function"
    """Always "function" in this format."""
    function: FunctionSpec
    """What it is."""

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.function.name

    def wire(self) -> dict[str, Any]:
        """The description as OpenAI's API and chat templates spell it."""
        return self.model_dump()


def system(content: str) -> Message:
    """A system message."""
    return Message(role="system", content=content)


def user(content: str) -> Message:
    """A user message."""
    return Message(role="user", content=content)


def assistant(content: str | None = None, *tool_calls: ToolCall) -> Message:
    """An assistant message: text, tool calls, or both."""
    return Message(role="assistant", content=content, tool_calls=tool_calls)


def tool_result(call: ToolCall, content: str) -> Message:
    """The answer to a tool call."""
    return Message(role="tool", content=content, tool_call_id=call.id, name=call.name or None)
