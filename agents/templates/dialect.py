"""Which kinds of message a chat template knows, found by trying, and how to put the others in its terms.

    the template has no …        then
    system role                  the system's text goes in front of the next user's message
    tools                        the tools and how to call them go into the system message, calls are
                                 written into the assistant's text, results come as a user's message in
                                 <tool_response> tags
    thinking                     thinking is part of the assistant's text
    two users in a row           their messages are joined

An assistant's content of None is always rendered as empty text: many templates fail on None.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from turngym.agents.errors import TemplateError
from turngym.agents.parsing import FORMATS, THINK_CLOSE, THINK_OPEN, ToolFormat, arguments_of, is_well_formed
from turngym.agents.templates.canned import TOOL
from turngym.agents.templates.encoding import Guard
from turngym.agents.templates.source import ChatTemplate, Wire
from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant, system, tool_result, user


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a template knows."""

    system: bool = True
    """It has a system role."""
    joins_users: bool = False
    """It refuses two user messages in a row, so they are joined."""
    thinks: bool = True
    """It knows thinking apart from content."""
    tools: bool = True
    """It shows tools, calls and results, and writes calls in a format of the table."""
    tool_format: ToolFormat = FORMATS["hermes"]
    """How calls are written: the template's own way, or ours where `tools` is False."""
    arguments_as_text: bool = False
    """It wants a call's arguments as JSON text instead of a mapping."""
    lone_results: bool = True
    """It takes a tool's result that answers no well-formed call."""
    parts: bool = False
    """It wants content as a list of typed parts, as templates of models that see images do."""

    def wire(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], guard: Guard
    ) -> tuple[list[Wire], list[Wire]]:
        """The conversation and the tools as this template takes them, with typed control tokens marked."""
        out: list[Wire] = []
        calls: set[str] = set()
        result_before = False
        for message in messages:
            wire = self._one(message, calls, guard)
            is_our_result = message.role == "tool" and wire["role"] == "user"
            if is_our_result and result_before:
                out[-1]["content"] += "\n" + wire["content"]
            elif self.joins_users and out and wire["role"] == out[-1]["role"] == "user":
                out[-1]["content"] += "\n\n" + wire["content"]
            else:
                out.append(wire)
            result_before = is_our_result
            calls.update(call.id for call in message.tool_calls if is_well_formed(call))
        if tools and not self.tools:
            _explain(out, self.tool_format, tools, guard)
        if not self.system:
            out = _system_into_user(out)
        if self.parts:
            out = [{**wire, "content": [{"type": "text", "text": wire["content"]}]} for wire in out]
        return out, [guard.content_of(tool.wire()) for tool in tools] if self.tools else []

    def _one(self, message: Message, calls: set[str], guard: Guard) -> Wire:
        if message.role == "assistant":
            return self._assistant(message, guard)
        content = guard.content(message.text)
        if message.role != "tool":
            return {"role": message.role, "content": content}
        if not self.tools or not (self.lone_results or message.tool_call_id in calls):
            return {"role": "user", "content": self.tool_format.write_result(content)}
        wire: Wire = {"role": "tool", "content": content}
        if message.tool_call_id is not None:
            wire["tool_call_id"] = message.tool_call_id
        if message.name is not None:
            wire["name"] = guard.content(message.name)
        return wire

    def _assistant(self, message: Message, guard: Guard) -> Wire:
        pieces = [guard.own(message.text)] if message.text else []
        wire: Wire = {"role": "assistant"}
        known: list[Wire] = []
        for call in message.tool_calls:
            if call.parse_error is not None:
                # The model's own words, tags and all: what it wrote is what it is shown again.
                pieces.append(call.function.arguments)
            elif self.tools and is_well_formed(call):
                known.append(self._call(call, guard))
            else:
                pieces.append(
                    self.tool_format.write(guard.own(call.name), guard.own(call.function.arguments))
                )
        if message.reasoning_content and self.thinks:
            wire["reasoning_content"] = guard.own(message.reasoning_content)
        elif message.reasoning_content:
            pieces.insert(0, f"{THINK_OPEN}\n{guard.own(message.reasoning_content)}\n{THINK_CLOSE}\n")
        wire["content"] = "\n".join(pieces)
        if known:
            wire["tool_calls"] = known
        return wire

    def _call(self, call: ToolCall, guard: Guard) -> Wire:
        text = call.function.arguments
        arguments = guard.own(text) if self.arguments_as_text else guard.own_of(json.loads(text))
        function = {"name": guard.own(call.name), "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}


def _explain(wires: list[Wire], tool_format: ToolFormat, tools: Sequence[ToolSpec], guard: Guard) -> None:
    """Put the description of the tools into the system message."""
    text = tool_format.explain([ToolSpec.model_validate(guard.content_of(tool.wire())) for tool in tools])
    if wires and wires[0]["role"] == "system":
        said = wires[0]["content"]
        wires[0]["content"] = f"{said}\n\n{text}" if said else text
    else:
        wires.insert(0, {"role": "system", "content": text})


def _system_into_user(wires: list[Wire]) -> list[Wire]:
    """Move each system message in front of the user's message that follows; make it one where none does."""
    out: list[Wire] = []
    for wire in wires:
        if wire["role"] == "user" and out and out[-1]["role"] == "system":
            out[-1] = {"role": "user", "content": f"{out[-1]['content']}\n\n{wire['content']}"}
        else:
            out.append(wire)
    return [{**wire, "role": "user"} if wire["role"] == "system" else wire for wire in out]


def texts_of(messages: Iterable[Message], tools: Iterable[ToolSpec]) -> Iterator[str]:
    """Every string of a conversation that somebody may have written a control token into."""
    for message in messages:
        yield message.text
        if message.reasoning_content:
            yield message.reasoning_content
        if message.name:
            yield message.name
        for call in message.tool_calls:
            yield call.name
            yield call.function.arguments
            if "\\u" in call.function.arguments:
                # A template that writes the arguments anew may undo the escapes.
                yield json.dumps(arguments_of(call), ensure_ascii=False)
    for tool in tools:
        yield tool.model_dump_json()


# --- Finding out

_CALL = ToolCall.of(TOOL.name, {"word": "Qargument"}, id="call_0_0")


def find_dialect(template: ChatTemplate, guard: Guard) -> Dialect:
    """Try what the template knows.

    Args:
        template: the template.
        guard: one that marks nothing.

    Raises:
        TemplateError: it cannot even render a user's message.
    """
    found = Dialect()

    def shows(
        dialect: Dialect, messages: Sequence[Message], *words: str, tools: Sequence[ToolSpec] = ()
    ) -> str:
        """The rendered text, or nothing if the template refuses or does not show all the words."""
        try:
            text = template.text(
                *dialect.wire(messages, tools, guard), generation=messages[-1].role != "assistant"
            )
        except TemplateError:
            return ""
        return text if all(word in text for word in words) else ""

    if not shows(found, [user("Quser")], "Quser"):
        found = replace(found, parts=True)
        if not shows(found, [user("Quser")], "Quser"):
            text = template.text(*Dialect().wire([user("Quser")], (), guard), generation=True)
            raise TemplateError(
                f"the chat template does not show a user's message: for 'Quser' it renders {text!r}. "
                "Give the tokenizer another chat_template."
            )
    if not shows(found, [system("Qsystem"), user("Quser")], "Qsystem", "Quser"):
        found = replace(found, system=False)
    if not shows(found, [user("Quser"), user("Qagain")], "Quser", "Qagain"):
        found = replace(found, joins_users=True)
    thought = Message(role="assistant", content="Qreply", reasoning_content="Qthought")
    knows_tags = THINK_CLOSE in template.source or "reasoning_content" in template.source
    found = replace(found, thinks=knows_tags or bool(shows(found, [user("Quser"), thought], "Qthought")))

    for as_text in (False, True):
        native = replace(found, arguments_as_text=as_text)
        if not shows(native, [user("Quser")], TOOL.name, tools=[TOOL]):
            continue
        text = shows(
            native, [user("Quser"), assistant(None, _CALL), tool_result(_CALL, "Qresult")], "Qresult"
        )
        for tool_format in FORMATS.values():
            if any(call.name == TOOL.name and arguments_of(call) == {"word": "Qargument"}
                   for call in tool_format.parse(text)[1]):  # fmt: skip
                lone = [user("Quser"), assistant("Qreply"), tool_result(_CALL, "Qresult")]
                taken = shows(native, lone, "Qreply", "Qresult", tools=[TOOL])
                return replace(native, tool_format=tool_format, lone_results=bool(taken))
    return replace(found, tools=False)
