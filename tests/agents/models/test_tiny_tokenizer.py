from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.models import tiny_vocabulary as vocabulary
from turngym.agents.models.tiny_tokenizer import tiny_tokenizer
from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant, system, tool_result, user

TOKENIZER = tiny_tokenizer(model_max_length=2048)
CALCULATOR = ToolSpec.model_validate(
    {
        "function": {
            "name": "calculator",
            "description": "Work out a op b.",
            "parameters": {
                "type": "object",
                "properties": {
                    "a": {"type": "integer"},
                    "op": {"type": "string", "enum": ["+", "-", "*"]},
                    "b": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                },
            },
        }
    }
)
CALL = ToolCall.of("calculator", {"a": 12, "op": "+", "b": 7})

# Text in which pieces, headers, special tokens and byte tokens meet, besides arbitrary Unicode.
fragments = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.sampled_from(
        [
            *vocabulary.pieces(),
            *vocabulary.SPECIAL_TOKENS,
            *vocabulary.ROLE_HEADERS,
            "<0x41>",
            "assistant",
            "\n",
            "12",
            "é",
            "😀",
        ]
    ),
)
texts = st.lists(fragments, max_size=6).map("".join)
messages = st.one_of(
    st.builds(user, texts),
    st.builds(system, texts),
    st.builds(lambda text: tool_result(CALL, text), texts),
    st.builds(lambda text, calls: assistant(text, *[CALL] * calls), st.none() | texts, st.integers(0, 2)),
    st.builds(lambda text: Message(role="assistant", content="x", reasoning_content=text), texts),
)


def encode(text: str, **options: Any) -> list[int]:
    ids: list[int] = TOKENIZER(text, add_special_tokens=False, **options)["input_ids"]
    return ids


def render(conversation: list[Message], *, tools: list[ToolSpec] | None = None, prompt: bool = False) -> str:
    text: str = TOKENIZER.apply_chat_template(
        [message.wire() for message in conversation],
        tools=[tool.wire() for tool in tools] if tools else None,
        tokenize=False,
        add_generation_prompt=prompt,
    )
    return text


@given(texts)
@settings(max_examples=200, deadline=None)
def test_any_text_survives(text: str) -> None:
    assert TOKENIZER.decode(encode(text)) == text
    assert TOKENIZER.decode(encode(text, split_special_tokens=True)) == text


@given(texts)
@settings(max_examples=100, deadline=None)
def test_special_tokens_in_a_text_can_be_kept_apart(text: str) -> None:
    assert not set(encode(text, split_special_tokens=True)) & set(TOKENIZER.all_special_ids)


def test_every_character_survives() -> None:
    for start in range(0, 0x110000, 0x800):
        text = "".join(chr(c) for c in range(start, start + 0x800) if not 0xD800 <= c < 0xE000)
        assert TOKENIZER.decode(encode(text, verbose=False)) == text


@given(st.integers(0, 10**30), texts)
@settings(max_examples=50, deadline=None)
def test_digits_are_spelt_one_by_one(number: int, text: str) -> None:
    ids = encode(f"{text}{number}")
    assert [TOKENIZER.decode([token]) for token in ids[-len(str(number)) :]] == list(str(number))


@given(st.sampled_from(vocabulary.ROLE_HEADERS), texts)
@settings(max_examples=100, deadline=None)
def test_a_header_never_merges_with_what_follows(header: str, text: str) -> None:
    header = vocabulary.TURN_START + header
    assert encode(header + text) == encode(header) + encode(text)
    assert len(encode(header)) == 2


def test_the_vocabulary() -> None:
    assert len(TOKENIZER) == TOKENIZER.vocab_size == 512
    assert len(set(TOKENIZER.get_vocab())) == 512
    pieces = vocabulary.pieces()
    assert not [piece for piece in pieces if sum(character.isdigit() for character in piece) > 1]
    for piece in pieces:
        assert len(encode(piece)) == 1, piece
    assert TOKENIZER.eos_token == "<|im_end|>"
    assert TOKENIZER.pad_token == "<|endoftext|>"
    assert TOKENIZER.pad_token_id != TOKENIZER.eos_token_id
    assert encode("<|im_start|>x<|im_end|>") == [1, *encode("x"), 2]


def test_a_tool_call_is_short() -> None:
    prompt, whole = (
        render([user("Compute 12 + 7")], prompt=True),
        render([user("Compute 12 + 7"), assistant(None, CALL)]),
    )
    assert whole.startswith(prompt)
    assert len(encode(whole)) - len(encode(prompt)) == 11


def test_building_is_fast() -> None:
    start = time.perf_counter()
    tiny_tokenizer(model_max_length=100)
    assert time.perf_counter() - start < 0.3


@given(st.lists(messages, min_size=1, max_size=5), st.booleans())
@settings(max_examples=100, deadline=None)
def test_law_01_a_longer_conversation_extends_a_shorter_one(
    conversation: list[Message], with_tools: bool
) -> None:
    tools = [CALCULATOR] if with_tools else None
    for cut, following in itertools.pairwise(range(len(conversation) + 1)):
        if not cut:
            continue
        is_answered = conversation[cut].role == "assistant"
        before = encode(render(conversation[:cut], tools=tools, prompt=is_answered))
        after = encode(render(conversation[:following], tools=tools))
        assert after[: len(before)] == before


def test_what_a_conversation_looks_like() -> None:
    conversation = [
        system("Be brief."),
        user("Compute 12 + 7"),
        assistant("Let me see.", CALL, CALL),
        tool_result(CALL, "19"),
        Message(role="assistant", content="19", reasoning_content="easy"),
    ]
    call = '<tool_call>\n{"name": "calculator", "arguments": {"a": 12, "op": "+", "b": 7}}\n</tool_call>'
    assert render(conversation, tools=[CALCULATOR], prompt=True) == (
        "<|im_start|>system\nBe brief.\n\n# Tools\ncalculator(a: integer, op: string, b)<|im_end|>"
        "<|im_start|>user\nCompute 12 + 7<|im_end|>"
        f"<|im_start|>assistant\nLet me see.\n{call}\n{call}<|im_end|>"
        "<|im_start|>tool\n<tool_response>\n19\n</tool_response><|im_end|>"
        "<|im_start|>assistant\n<think>\neasy\n</think>\n\n19<|im_end|>"
        "<|im_start|>assistant\n"
    )


def test_tools_without_a_system_message() -> None:
    nothing = ToolSpec.model_validate({"function": {"name": "end", "parameters": {"type": "object"}}})
    assert render([user("Go")], tools=[CALCULATOR, nothing]) == (
        "<|im_start|>system\n# Tools\ncalculator(a: integer, op: string, b)\nend()<|im_end|>"
        "<|im_start|>user\nGo<|im_end|>"
    )
    assert render([user("Go")]) == "<|im_start|>user\nGo<|im_end|>"


@pytest.mark.parametrize("arguments", [{"a": "é", "b": [1, None]}, {}])
def test_arguments_may_be_text_or_an_object(arguments: dict[str, Any]) -> None:
    def with_arguments(value: Any) -> str:
        wire = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": value}}]}
        text: str = TOKENIZER.apply_chat_template([wire], tokenize=False)
        return text

    assert with_arguments(arguments) == with_arguments(json.dumps(arguments, ensure_ascii=False))
