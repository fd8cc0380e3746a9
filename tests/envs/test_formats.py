from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from turngym.envs import ToolCall, ToolEnv, assistant, questions, reward, tool
from turngym.envs.errors import ContractError
from turngym.envs.formats import has_tags, json_object, matches, strict_object


class Point(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int
    y: int = 0


class Named(TypedDict):
    name: str


@pytest.mark.parametrize(
    ("form", "right", "wrong"),
    [
        (matches(r"-?\d+"), ["0", "-12"], ["", "12 ", "x12", "12\n", "1\n2"]),
        (matches(r"(?s)a.*z"), ["a\nz"], ["a\nz\n", "xaz"]),
        (
            has_tags("think", "answer"),
            [
                "<think>a</think><answer>b</answer>",
                "\n<think>\n1 < 2\n</think>\n\n<answer> <b>x</b> </answer> ",
            ],
            [
                "",
                "<answer>b</answer>",
                "<answer>b</answer><think>a</think>",
                "<think>a</think> so <answer>b</answer>",
                "<think>a</think><answer>b</answer>.",
                "<think>a</think><answer></answer>",
                "<think>a</think><answer> \n </answer>",
                "<think>a<think>b</think></think><answer>c</answer>",
                "<think>a<answer>x</answer></think><answer>b</answer>",
                "<think>a</think><answer>b</answer><answer>c</answer>",
                "<think>a</think><answer>b",
                "<THINK>a</THINK><answer>b</answer>",
            ],
        ),
        (
            json_object(),
            ["{}", ' {"a": [1, null]} ', '{"a": {"b": "NaN"}}'],
            [
                "", "[]", "7", "null", '```json\n{}\n```', '{"a": NaN}', '{"a": 1, "a": 2}', "{} {}", "{'a': 1}",
                '{"a": Infinity}', "[" * 100_000, '{"a":' * 100_000,
            ],
        ),
        (
            json_object(Point),
            ['{"x": 1}', '{"x": 1, "y": 2}'],
            ["{}", '{"x": "1"}', '{"x": 1.5}', '{"x": 1, "z": 2}', '{"x": 1, "x": 2}'],
        ),
        (json_object(Named), ['{"name": "a"}'], ['{"name": 1}', "{}"]),
    ],
)  # fmt: skip
def test_forms_are_strict_and_about_the_whole_text(form, right, wrong):
    assert [text for text in right if form(assistant(text)) != 1.0] == []
    assert [text for text in wrong if form(assistant(text)) != 0.0] == []


@given(st.text())
def test_any_text_has_a_verdict(text):
    for form in (has_tags("a"), json_object(Point), matches("x*")):
        assert form(assistant(text)) in (0.0, 1.0)


def test_has_tags_is_linear():
    assert has_tags("a", "b")(assistant("<a>" + "<a" * 200_000)) == 0.0


def test_tags_are_names():
    for tags in ((), ("a", "a"), ("a b",), ("",)):
        with pytest.raises(ContractError, match="different names"):
            has_tags(*tags)


def test_strict_objects():
    assert strict_object('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="no object"):
        strict_object("[]")
    with pytest.raises(ValueError, match="twice"):
        strict_object('{"b": {"a": 1, "a": 1}}')


def test_as_rewards_at_the_end_and_in_every_turn():
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    env = ToolEnv(
        tasks=questions(train={"?": "yes"}),
        tools=[look],
        rewards=[
            reward(weight=0.5)(has_tags("answer")),
            reward(weight=0.1, when="turn", name="short")(matches("(?s).{0,30}")),
        ],
    )
    env.reset(seed=0)
    *_, info = env.step(assistant("x" * 31, ToolCall.of("look", {})))
    assert info["reward_components"] == {"short": 0.0}
    _, paid, *_, info = env.step("<answer>yes</answer>")
    assert paid == pytest.approx(0.6)
    assert info["reward_components"] == {"short": 1.0, "has_tags": 1.0}
