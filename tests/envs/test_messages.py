from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from turngym.envs.messages import FunctionCall, Message, ToolCall, assistant, system, tool_result, user

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
CALLS = st.builds(ToolCall, id=TEXT, function=st.builds(FunctionCall, name=TEXT, arguments=TEXT))
MESSAGES = st.one_of(
    st.builds(Message, role=st.sampled_from(["system", "user"]), content=TEXT),
    st.builds(
        Message, role=st.just("assistant"), content=st.none() | TEXT, reasoning_content=st.none() | TEXT,
        tool_calls=st.lists(CALLS, max_size=3).map(tuple),
    ),
    st.builds(Message, role=st.just("tool"), content=TEXT, tool_call_id=TEXT, name=st.none() | TEXT),
)  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(MESSAGES)
def test_wire_format_and_back(message):
    assert Message.from_wire(json.loads(json.dumps(message.wire()))) == message
    assert Message.model_validate_json(message.model_dump_json()) == message
    assert pickle.loads(pickle.dumps(message)) == message


def test_wire_form_of_a_call():
    call = ToolCall.of("f", {"a": "ü"}, id="1")
    assert assistant(None, call).wire() == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": "ü"}'}}],
    }
    assert tool_result(call, "3").wire() == {"role": "tool", "content": "3", "tool_call_id": "1", "name": "f"}


def test_a_malformed_call_is_kept_and_leaves_no_trace_on_the_wire():
    call = ToolCall(id="1", function=FunctionCall(name="", arguments="<oops"), parse_error="why")
    assert "parse_error" not in json.dumps(assistant(None, call).wire())
    assert (
        Message.model_validate_json(assistant(None, call).model_dump_json()).tool_calls[0].parse_error
        == "why"
    )


def test_frozen_and_closed():
    message = user("x")
    with pytest.raises(ValidationError):
        message.content = "y"
    with pytest.raises(ValidationError):
        Message.from_wire({"role": "user", "content": "x", "colour": "red"})
    assert hash(system("a")) == hash(system("a"))
    assert assistant(None).text == ""
