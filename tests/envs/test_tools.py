from __future__ import annotations

import math
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs import ToolCall, tool
from turngym.envs.errors import ContractError, InfrastructureError
from turngym.envs.messages import FunctionCall
from turngym.envs.tools import Tool, Toolbox, class_tools
from turngym.sandboxes.async_bridge import run, run_inline
from turngym.sandboxes.errors import FileError, SandboxLost


@tool
def add(a: int, b: int = 1, scale: float = 1.0, note: Any = None) -> float:
    """Add."""
    return (a + b) * scale


@tool(name="minus", description="Take away.", strict=False)
def subtract(a: int, b: int) -> int:
    return a - b


@tool
def give(
    what: Literal["text", "none", "dict", "nan", "surrogate", "bytes", "exit", "await", "outage", "stop"],
):
    """All sorts of results."""
    if what == "exit":
        raise SystemExit(3)
    if what == "stop":
        raise StopIteration
    if what == "outage":
        raise InfrastructureError("gone")
    if what == "await":
        return later(1)
    return {
        "text": "plain", "none": None, "dict": {"ü": [1, 2.5, True]}, "nan": math.nan,
        "surrogate": "half \ud800 pair", "bytes": b"raw",
    }[what]  # fmt: skip


@tool
async def later(a: int) -> int:
    """The same, asynchronously."""
    return a


BOX = Toolbox([Tool.of(add), Tool.of(subtract), Tool.of(give), Tool.of(later)])


def answer(name: str, arguments: str, **kwargs) -> tuple[str, bool]:
    call = ToolCall(id="c7", function=FunctionCall(name=name, arguments=arguments), **kwargs)
    message, in_order = run_inline(BOX.answer(None, call))
    assert message.role == "tool"
    assert message.tool_call_id == "c7"
    return message.text, in_order


def test_a_tool_stays_a_function():
    assert add(1, 2) == 3.0


def test_right_calls_give_the_result():
    assert answer("add", '{"a": 3, "b": 4}') == ("7.0", True)
    assert answer("add", '{"a": 3}') == ("4.0", True)
    assert answer("minus", '{"a": 3, "b": 4}') == ("-1", True)
    assert answer("later", '{"a": 3}') == ("3", True)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ('{"a": 3', "not valid JSON: EOF while parsing an object"),
        ("a=3", "not valid JSON: expected value"),
        ("[3]", "must be a JSON object, not [3]"),
        ("null", "must be a JSON object, not null"),
        ('"{}"', 'must be a JSON object, not "{}"'),
        ("", "argument 'a' is missing"),
        ("{}", "argument 'a' is missing"),
        ('{"a": "3"}', "argument 'a': Input should be a valid integer, got \"3\""),
        ('{"a": true}', "argument 'a': Input should be a valid integer, got true"),
        ('{"a": 3.0}', "argument 'a': Input should be a valid integer, got 3.0"),
        ('{"a": null}', "argument 'a': Input should be a valid integer, got null"),
        ('{"a": 3, "c": 1, "d": 2}', "there is no argument 'c'. there is no argument 'd'."),
        ('{"a": 3, "scale": NaN}', "NaN is not a JSON number"),
        ('{"a": 3, "scale": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 3, "note": [NaN]}', "NaN is not a JSON number"),
        ('{"a": 3, "scale": 1e999}', "argument 'scale': Input should be a finite number"),
        ("[" * 100_000, "recursion limit"),
        ("[" * 100_000 + "NaN", "nested too deeply"),
        ('{"a": "\ud800"}', "not valid Unicode"),
        ('{"a": "' + "x" * 1000 + '"}', "xxx..."),
    ],
)  # fmt: skip
def test_wrong_calls_are_told_what_was_wrong_and_what_is_right(arguments, complaint):
    text, in_order = answer("add", arguments)
    assert not in_order
    assert text.startswith("Error: ")
    assert complaint in text
    assert text.endswith("Right: add(a: integer, b?: integer, scale?: number, note?: any)")
    assert len(text) < 400


def test_nan_inside_a_string_is_text():
    assert answer("add", '{"a": 1, "note": "NaN"}') == ("2.0", True)


def test_lenient_tools_convert():
    assert answer("minus", '{"a": "3", "b": 1.0}') == ("2", True)
    assert answer("minus", '{"a": "three", "b": 1}')[1] is False


def test_unknown_tools_name_the_nearest():
    text, in_order = answer("ad", "{}")
    assert not in_order
    assert "there is no tool 'ad'. Did you mean 'add'?" in text
    assert "minus(a: integer, b: integer)" in text


def test_unparsed_calls_are_answered():
    text, in_order = answer("", "<tool_call>{oops", parse_error="no closing brace")
    assert not in_order
    assert text.startswith("Error: this is not a well-formed tool call: no closing brace. Tools: add(")
    text, in_order = answer("add", '{"a": 1}', parse_error="cut off")  # whatever was salvaged is not run
    assert not in_order
    assert "cut off. Right: add(" in text


def test_results_become_text():
    assert answer("give", '{"what": "text"}') == ("plain", True)
    assert answer("give", '{"what": "none"}') == ("done", True)
    assert answer("give", '{"what": "dict"}') == ('{"ü":[1,2.5,true]}', True)
    assert answer("give", '{"what": "nan"}') == ("NaN", True)
    assert answer("give", '{"what": "surrogate"}') == ("half ? pair", True)
    assert answer("give", '{"what": "bytes"}') == ('"raw"', True)


def test_a_raising_tool_tells_the_model():
    assert answer("give", '{"what": "exit"}') == ("Error: give failed: SystemExit: 3", False)
    assert answer("give", '{"what": "stop"}') == ("Error: give failed: StopIteration: StopIteration", False)
    text, in_order = answer("add", '{"a": 1, "scale": 2.0, "b": ' + "9" * 400 + "}")
    assert (text[:43], in_order) == ("Error: add failed: OverflowError: int too l", False)


def test_infrastructure_failures_are_not_told_to_the_model():
    with pytest.raises(InfrastructureError):
        answer("give", '{"what": "outage"}')


@pytest.mark.filterwarnings("ignore:coroutine 'later' was never awaited:RuntimeWarning")
def test_forgetting_async_def_is_an_authors_error():
    with pytest.raises(ContractError, match="async def"):
        answer("give", '{"what": "await"}')


@settings(max_examples=100, deadline=None)
@given(st.text(), st.sampled_from(["add", "minus", "give", "", "nonsense"]))
def test_no_text_makes_a_call_raise(arguments, name):
    text, _ = answer(name, arguments)
    assert text


def test_async_tools_may_wait():
    import asyncio

    @tool
    async def doze(seconds: float) -> str:
        """Sleep."""
        await asyncio.sleep(seconds)
        return "awake"

    box = Toolbox([Tool.of(doze)])
    assert box.is_async
    message, _ = run(box.answer(None, ToolCall.of("doze", '{"seconds": 0.001}')))
    assert message.text == "awake"


def test_names_are_unique_and_can_be_chosen():
    assert [spec.name for spec in BOX.specs] == ["add", "minus", "give", "later"]
    assert BOX.specs[1].function.description == "Take away."
    assert [spec.name for spec in BOX.only(["later", "add"]).specs] == ["add", "later"]
    with pytest.raises(ValueError, match="no tool 'multiply'"):
        BOX.only(["multiply"])
    with pytest.raises(ContractError, match="two tools"):
        Toolbox([Tool.of(add), Tool.of(add)])


def test_class_tools_follow_inheritance():
    class Base:
        @tool
        def first(self) -> int:
            return 1

        @tool
        def second(self) -> int:
            return 2

        @tool
        @staticmethod
        def third(a: int) -> int:
            return a

    class Sub(Base):
        @tool
        def fourth(self) -> int:
            return 4

        @tool
        def first(self) -> int:
            return 11

        second = None

    tools = class_tools(Sub)
    assert [one.spec.name for one in tools] == ["first", "third", "fourth"]
    assert [one.takes_env for one in tools] == [True, False, True]
    assert run_inline(Toolbox(tools).answer(Sub(), ToolCall.of("first", "{}")))[0].text == "11"


async def test_a_broken_sandbox_is_no_news_for_the_model_but_a_bad_path_is():
    @tool
    def use(what: str) -> str:
        """Fail in some way."""
        raise {"lost": SandboxLost, "path": FileError}[what](what)

    box = Toolbox([Tool.of(use)])
    answer, in_order = await box.answer(None, ToolCall.of("use", {"what": "path"}))
    assert not in_order
    assert "path" in answer.text
    with pytest.raises(SandboxLost):
        await box.answer(None, ToolCall.of("use", {"what": "lost"}))
