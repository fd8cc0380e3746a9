"""The shape of a conversation: all that a template may decide on, other than the words.

Whether a template lets a conversation be extended depends on its shape alone, so it is tried once per shape,
on a conversation with stand-in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from turngym.agents.parsing import is_well_formed
from turngym.envs.messages import FunctionCall, Message, ToolCall

SAID, LAST, THOUGHT = "Qsaid", "Qlast", "Qthought"
"""Stand-in words: for anything said, for the end of the assistant's last turn, for thinking."""


def shapes(messages: Sequence[Message]) -> tuple[object, ...]:
    """What a template may decide on, other than the words."""
    return tuple(
        (
            message.role,
            bool(message.content),
            bool(message.reasoning_content),
            tuple((call.id, call.name, is_well_formed(call)) for call in message.tool_calls),
            message.tool_call_id,
            message.name,
        )
        for message in messages
    )


def skeleton(messages: Sequence[Message]) -> list[Message]:
    """A conversation of the same shape with other words."""
    return [_same_shape(message, SAID, message.tool_calls) for message in messages]


def stub(message: Message, *, native: bool) -> Message:
    """The assistant's last turn with a word by which its end is found: in its last call or its content."""
    known = tuple(call for call in message.tool_calls if is_well_formed(call)) if native else ()
    reply = _same_shape(message, SAID, known[:-1])
    if not known:
        return reply.model_copy(update={"content": LAST})
    return reply.model_copy(update={"tool_calls": (*reply.tool_calls, _call(known[-1], LAST))})


def _same_shape(message: Message, word: str, calls: Iterable[ToolCall]) -> Message:
    return message.model_copy(
        update={
            "content": word if message.content else message.content,
            "reasoning_content": THOUGHT if message.reasoning_content else None,
            "tool_calls": tuple(_call(call, word) for call in calls),
        }
    )


def _call(call: ToolCall, word: str) -> ToolCall:
    if not is_well_formed(call):
        return call.model_copy(update={"function": FunctionCall(name=call.name, arguments=word)})
    return ToolCall.of(call.name, {"argument": word}, id=call.id)
