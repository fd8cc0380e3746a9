"""Tool calls and thinking in an assistant's text: found where they are, kept where they are broken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.parsing import (
    FORMATS,
    HERMES,
    arguments_of,
    is_well_formed,
    parse_reply,
    split_reasoning,
)
from turngym.envs.messages import Message, ToolCall

from .zoo import LOOKUP


def reply(text: str, *, thinks: bool = True, thinking_opened: bool = False) -> Message:
    return parse_reply(text, HERMES, thinks=thinks, thinking_opened=thinking_opened)


def only_call(text: str) -> ToolCall:
    (call,) = HERMES.parse(text)[1]
    return call


def test_text_without_calls_is_kept_to_the_letter() -> None:
    assert reply("  7 apples\n") == Message(role="assistant", content="  7 apples\n")
    assert reply("") == Message(role="assistant", content="")


def test_a_call_keeps_its_arguments_as_the_model_wrote_them() -> None:
    written = '{"a" : 1.50,"b":\t[ 2 ], "c": "\\u00fc"}'
    call = only_call(f'<tool_call>\n{{"name": "f", "arguments":  {written} }}\n</tool_call>')
    assert (call.name, call.function.arguments, call.parse_error) == ("f", written, None)
    assert arguments_of(call) == {"a": 1.5, "b": [2], "c": "ü"}


def test_members_may_come_in_any_order_with_others_beside_them() -> None:
    call = only_call('<tool_call>{"arguments":{"x":1},"why":null,"name":"f"}</tool_call>')
    assert (call.name, call.function.arguments) == ("f", '{"x":1}')


def test_content_around_calls_is_joined_and_none_if_empty() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert reply(call).content is None
    message = reply(f"First this.\n{call}\nthen\n{call}\n")
    assert message.content == "First this.\nthen"
    assert [call.id for call in message.tool_calls] == ["call_0", "call_1"]


def test_arguments_may_be_left_out_or_be_json_in_a_string() -> None:
    assert only_call('<tool_call>{"name": "now"}</tool_call>').function.arguments == "{}"
    call = only_call('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>')
    assert (call.function.arguments, arguments_of(call)) == ('{"a": 1}', {"a": 1})


def test_a_closing_tag_inside_an_argument_does_not_close_the_call() -> None:
    arguments = json.dumps({"code": "print('</tool_call><tool_call>')"})
    call = only_call(f'<tool_call>{{"name": "run", "arguments": {arguments}}}</tool_call>')
    assert arguments_of(call) == {"code": "print('</tool_call><tool_call>')"}


@pytest.mark.parametrize(
    ("text", "why", "name"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}', "never closed", ""),
        ('<tool_call>\n{"name": "f", "arg', "never closed", ""),
        ("<tool_call>", "never closed", ""),
        ('<tool_call>{"name": "f", "arguments": {a: 1}}</tool_call>', "not valid JSON", ""),
        ("<tool_call>f(1)</tool_call>", "not valid JSON", ""),
        ("<tool_call></tool_call>", "not valid JSON", ""),
        ('<tool_call>{"name": "f"} and more</tool_call>', "text after the JSON", ""),
        ('<tool_call>["f", {}]</tool_call>', "a JSON object", ""),
        ('<tool_call>"f"</tool_call>', "a JSON object", ""),
        ('<tool_call>{"arguments": {}}</tool_call>', 'no "name"', ""),
        ('<tool_call>{"name": 3, "arguments": {}}</tool_call>', 'no "name"', ""),
        ('<tool_call>{"name": "", "arguments": {}}</tool_call>', 'no "name"', ""),
        ('<tool_call>{"name": "f", "arguments": [1]}</tool_call>', "not a JSON object", "f"),
        ('<tool_call>{"name": "f", "arguments": "a=1"}</tool_call>', "not a JSON object", "f"),
        ('<tool_call>{"name": "f", "arguments": null}</tool_call>', "not a JSON object", "f"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "not valid JSON", ""),
        (
            '<tool_call>{"name": "f", "arguments": {"n": ' + "9" * 5000 + "}}</tool_call>",
            "not valid JSON",
            "",
        ),
    ],
)
def test_a_malformed_call_is_kept_whole_and_says_what_is_wrong(text: str, why: str, name: str) -> None:
    call = only_call(text)
    assert call.parse_error is not None
    assert why in call.parse_error
    assert (call.name, call.function.arguments) == (name, text)
    assert arguments_of(call) is None


def test_calls_after_a_broken_one_are_still_found() -> None:
    good = '<tool_call>{"name": "g", "arguments": {}}</tool_call>'
    content, calls = HERMES.parse(f'a <tool_call>{{"name": \n{good} b <tool_call>oops</tool_call> {good}')
    assert [call.name for call in calls] == ["", "g", "", "g"]
    assert [call.parse_error is None for call in calls] == [False, True, False, True]
    assert calls[0].function.arguments == '<tool_call>{"name":'
    assert content == "a\nb"


def test_a_stray_closing_tag_is_text() -> None:
    assert reply("done</tool_call>").content == "done</tool_call>"


def test_thinking_is_split_off() -> None:
    message = reply("<think>\nTwo and two.\n</think>\n\nFour.")
    assert (message.reasoning_content, message.content) == ("Two and two.", "Four.")
    message = reply("\n<think>a</think>b<think>c</think>")
    assert (message.reasoning_content, message.content) == ("a", "b<think>c</think>")
    assert reply("<think>\n\n</think>\n\nFour.") == Message(role="assistant", content="Four.")


def test_thinking_that_the_prompt_opened_needs_no_opening_tag() -> None:
    assert split_reasoning("so\n</think>\n\nFour.", opened=True) == ("so", "Four.")
    assert split_reasoning("<think>so</think>Four.", opened=True) == ("so", "Four.")
    assert split_reasoning("so\n</think>\n\nFour.", opened=False) == (None, "so\n</think>\n\nFour.")


def test_thinking_that_never_ends_is_all_thinking() -> None:
    text = '<think>\nI could <tool_call>{"name": "f", "arguments": {}}</tool_call>'
    message = reply(text)
    assert (message.content, message.tool_calls) == ("", ())
    assert message.reasoning_content == text.removeprefix("<think>\n")


def test_a_template_without_thinking_leaves_it_in_the_content() -> None:
    assert reply("<think>a</think>b", thinks=False).content == "<think>a</think>b"


@given(
    name=st.text(min_size=1, max_size=20),
    arguments=st.dictionaries(
        st.text(max_size=8),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=30),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
            ),
            max_leaves=5,
        ),
        max_size=4,
    ),
    ascii_only=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_what_a_format_writes_it_reads_back(
    name: str, arguments: dict[str, object], ascii_only: bool
) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    for tool_format in FORMATS.values():
        content, (call,) = tool_format.parse(tool_format.write(name, text))
        assert (content, call.name, call.function.arguments) == ("", name, text)
        assert is_well_formed(call)
        assert arguments_of(call) == arguments


@given(
    st.lists(
        st.sampled_from(
            [
                "<tool_call>",
                "</tool_call>",
                '{"name": "f", "arguments": {}}',
                "<think>",
                "</think>",
                "{",
                "x ",
            ]
        ),
        max_size=8,
    ).map("".join)
)
@settings(max_examples=100, deadline=None)
def test_any_text_parses_and_no_call_is_lost(text: str) -> None:
    content, calls = HERMES.parse(text)
    assert (not calls and content == text) or len(calls) >= 1
    for call in calls:
        if call.parse_error is not None:
            assert call.function.arguments in text
            assert call.function.arguments.startswith("<tool_call>")
    reply(text)
    reply(text, thinking_opened=True)


def test_a_format_explains_the_tools_in_words_that_it_can_read() -> None:
    text = HERMES.explain([LOOKUP])
    assert json.dumps(LOOKUP.wire()["function"]) in text
    example = next(call for call in HERMES.parse(text)[1] if call.parse_error is None)
    assert (example.name, arguments_of(example)) == ("tool name", {"argument": "value"})
