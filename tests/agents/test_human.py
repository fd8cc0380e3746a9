"""What a person types: said as it is, or a call where it is written like one."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.agents.human import GaveUp, HumanAgent, NotACall, message_of, read_text
from turngym.agents.protocols import EpisodeStart, NoiseKey
from turngym.envs import assistant, make, user

TOOLS = make("turngym/Calculator-v0").tools


def calls(text, tools=TOOLS):
    message = message_of(text, tools)
    assert message.content is None
    return [(call.name, json.loads(call.function.arguments)) for call in message.tool_calls]


SUM = ("calculator", {"a": 1, "op": "+", "b": 2})


@pytest.mark.parametrize(
    "text",
    [
        'calculator(a=1, op="+", b=2)',
        "  calculator(a = 1, op='+', b = 2)  ",
        'calculator(1, "+", 2)',
        'calculator(1, "+", b=2)',
        'calculator(\n  1,\n  "+",\n  2\n)',
        '{"name": "calculator", "arguments": {"a": 1, "op": "+", "b": 2}}',
        '[{"name": "calculator", "arguments": {"a": 1, "op": "+", "b": 2}}]',
    ],
)
def test_spellings_of_a_call(text):
    assert calls(text) == [SUM]


def test_several_calls_in_one_message_have_ids_of_their_own():
    for text in (
        'calculator(1, "+", 2); calculator(3, "-", b=-1)',
        'calculator(1, "+", 2)\ncalculator(3, "-", b=-1)',
    ):
        assert calls(text) == [SUM, ("calculator", {"a": 3, "op": "-", "b": -1})]
    message = message_of('calculator(1, "+", 2); calculator(1, "+", 2)', TOOLS, first_id=7)
    assert [call.id for call in message.tool_calls] == ["call_7", "call_8"]


def test_literals_in_both_spellings():
    ((_, arguments),) = calls('calculator(a=null, op=[true, {"x": None}], b=1.5)')
    assert arguments == {"a": None, "op": [True, {"x": None}], "b": 1.5}


def test_wrong_arguments_are_the_environments_to_answer():
    assert calls("calculator(c=1)") == [("calculator", {"c": 1})]
    assert calls('{"name": "nothing", "arguments": {}}') == [("nothing", {})]
    assert calls('{"name": "calculator", "arguments": 7}') == [("calculator", 7)]


@pytest.mark.parametrize(
    "text",
    [
        "52",
        "",
        "(1 + 2)",
        "other(1)",
        '{"a": 1}',
        "[1, 2]",
        "{",
        "calculator",
        "calculator: 1",
        "x = calculator(1)",
    ],
)
def test_anything_else_is_said(text):
    assert message_of(text, TOOLS) == assistant(text)
    assert message_of(text, ()) == assistant(text)


def test_a_mark_before_it_says_it_as_it_is():
    assert message_of("> calculator(a=1)", TOOLS) == assistant("calculator(a=1)")
    assert message_of('>{"name": "x", "arguments": {}}', TOOLS) == assistant('{"name": "x", "arguments": {}}')
    assert message_of('calculator(1, "+", 2)', ()) == assistant('calculator(1, "+", 2)')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("calculator(a=1", "was never closed. Write > before it"),
        ("calculator(1, 2, 3, 4)", "calculator takes 3 arguments, not 4"),
        ("calculator(1, a=2)", "a is given twice"),
        ("calculator(**{})", r"\*\* is given twice"),
        ("calculator(a=b)", "b is no literal"),
        ("calculator(a=open('x'))", r"open\('x'\) is no literal"),
        ("calculator(a={1, 2})", "is no literal"),
        ("calculator(a=1e999)", "is no literal"),
        ("calculator(a=b'x')", "is no literal"),
        ("calculator(1); x = 2", "only calls may stand beside a call"),
        ("calculator(1).real", "only calls may stand beside a call"),
    ],
)
def test_what_only_begins_like_a_call_is_asked_again(text, why):
    with pytest.raises(NotACall, match=why):
        message_of(text, TOOLS)


@given(st.text(), st.sampled_from(["", "calculator(", "{", '{"name": "calculator", "arguments": ']))
def test_any_text_is_a_message_or_asked_again(text, start):
    with contextlib.suppress(NotACall):
        assert message_of(start + text, TOOLS).role == "assistant"


def reader(*lines):
    left = list(lines)

    def read(prompt):
        if not left:
            raise EOFError
        return left.pop(0)

    return read


def test_texts_of_several_lines():
    assert read_text(reader("one")) == "one"
    assert read_text(reader("one\\", "two\\", "", "x")) == "one\ntwo\n"
    assert read_text(reader('"""', "one", "", ' "two" \\', '"""', "x")) == 'one\n\n "two" \\'
    for lines in ((), ('"""', "one"), ("one\\",)):
        with pytest.raises(EOFError):
            read_text(reader(*lines))


def test_a_person_is_asked_until_it_is_a_message_and_may_give_up():
    shown, complaints = [], []
    agent = HumanAgent(
        reader("calculator(", 'calculator(1, "+", 2)', 'calculator(1, "+", 2)'),
        shown.append,
        complaints.append,
    )
    player = agent.start(EpisodeStart("e", TOOLS, NoiseKey(0, 0, "t", 0)))

    async def main():
        first = await player.act([user("1 + 2?")])
        second = await player.act([])
        assert [call.id for call in (*first.message.tool_calls, *second.message.tool_calls)] == [
            "call_0",
            "call_1",
        ]
        await player.act([])

    with pytest.raises(GaveUp):
        asyncio.run(main())
    assert shown == [[user("1 + 2?")], [], []]
    assert len(complaints) == 1
