"""Who knows the answer but does not give it is not paid; who gives it in a declared format is."""

from __future__ import annotations

import json

import pytest

from turngym.envs import ToolCall, assistant, reward, tool, user
from turngym.envs.checks import attacks
from turngym.envs.messages import FunctionSpec, ToolSpec

from .good import Good, Shelf, failures

pytestmark = pytest.mark.usefixtures("clean_registry")

PROSE = "text around the answer earns no success"
FORGED = "forged tool results earn no success"
ODD = "empty, huge and odd texts earn no success"
WRONG = "wrong arguments are answered and earn no success"


class Boxed(Good):
    """The last box counts, whatever is around it."""

    answer_formats = (r".*\[(?P<answer>\w*)\][^\[\]]*",)

    def right(self, text):
        return text.rpartition("[")[2].partition("]")[0] == self.task.target and "[" in text

    @staticmethod
    def expert(task, history, rng):
        return assistant(f"[{task.target}]")


class Unannounced(Boxed):
    answer_formats = ()


class Misspelt(Boxed):
    answer_formats = (r"\[(\w*)\]",)


class Submitted(Shelf):
    """The answer is given by a call; a text around the word is read as the word."""

    @tool
    def submit(self, word: str) -> str:
        """Give the answer."""
        self.state = word
        return "thanks"

    @reward
    def correct(self, state, target) -> float:
        return float(target in (state or ""))

    async def astep(self, action):
        result = await super().astep(action)
        if self.state is None or result[2]:
            return result
        return await super().astep(assistant("done"))

    @staticmethod
    def expert(task, history, rng):
        if history[-1].role == "tool":
            return assistant(None, ToolCall.of("submit", {"word": task.target}))
        return assistant(None, ToolCall.of("look", {"shelf": 7}))


class Exact(Submitted):
    @reward
    def correct(self, state, target) -> float:
        return float(target == state)


class OnlyAfterWork(Good):
    """Gullible, but only in the last of three turns."""

    def right(self, text):
        return self.turn == 3 and self.task.target in text

    @staticmethod
    def expert(task, history, rng):
        return assistant(task.target if sum(m.role == "assistant" for m in history) == 2 else "wait")

    def step(self, action):
        result = super().step(action)
        if action.text != "wait" and self.turn < 3:
            return (), 0.0, True, False, {"metrics": {"success": 0.0}}
        return result


class WorkIsGraded(OnlyAfterWork):
    """Whatever is said after the work, the work was done."""

    def right(self, text):
        return self.turn == 3


class NanIsRight(Good):
    def right(self, text):
        try:
            return not abs(float(text) - 1.0) > 0.1
        except ValueError:
            return super().right(text)


class Brittle(Good):
    def step(self, action):
        action.text.encode("utf-8")
        return super().step(action)


class AcceptsTools(Good):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        guarded = self.step
        self.step = lambda action: guarded(
            assistant(action["content"]) if isinstance(action, dict) else action
        )


class Shuffles(Shelf):
    async def astep(self, action):
        observation, *rest = await super().astep(action)
        return observation[::-1], *rest


class RaisesOnNull(Shelf):
    async def astep(self, action):
        for call in action.tool_calls:
            json.loads(call.function.arguments)
        return await super().astep(action)


def test_declared_formats_count():
    assert failures(Boxed) == {}
    found = failures(Unannounced)
    assert "is solved by 'The answer is {a}.'" in found[PROSE]
    assert "has no group (?P<answer>…)" in failures(Misspelt)[PROSE]


def test_answers_in_calls_are_attacked_too():
    assert failures(Exact) == {}
    assert set(failures(Submitted)) >= {PROSE, FORGED}


def test_attacks_come_after_the_work_too():
    assert failures(OnlyAfterWork)[PROSE].endswith("said after the expert's work")
    assert failures(WorkIsGraded) == {}


def test_not_a_number_is_not_the_answer():
    assert "'NaN'" in failures(NanIsRight)[ODD]


def test_an_exception_names_the_attack():
    assert r"'\ud800' raised UnicodeEncodeError" in failures(Brittle)[ODD]


def test_an_action_in_the_role_of_a_tool_is_refused():
    assert failures(AcceptsTools)[FORGED] == "an action in the role of a tool was accepted"


def test_wrong_calls_are_answered_in_order():
    assert "were answered by" in failures(Shuffles)[WRONG]
    assert "JSONDecodeError" in failures(RaisesOnNull)[WRONG]


def test_wrong_calls_are_of_every_kind():
    parameters = {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
    spec = ToolSpec(function=FunctionSpec(name="t", parameters=parameters))
    calls = [call for message in attacks.wrong_calls(spec) for call in message.tool_calls]
    assert len({call.id for call in calls}) == len(calls)
    texts = {call.function.arguments for call in calls}
    assert {"7", "null", "[]", '{"a": NaN}'} <= texts
    assert any(text.count('"a"') == 2 and text.startswith('{"a": null') for text in texts)


def test_a_right_answer_may_hold_what_stands_for_a_wrong_one():
    assert attacks.filled("{b} or {a}", "{b}", "{a}") == "{a} or {b}"


def test_an_environment_without_an_expert_is_attacked_with_its_target():
    class Alone(Good):
        expert = None

        def right(self, text):
            return self.task.target in text

    assert PROSE in failures(Alone)


def test_nonsense_solves_nothing():
    class Generous(Good):
        def step(self, action):
            return (user("fine"),), 1.0, True, False, {"metrics": {"success": 1.0}}

    assert "'I do not know what to say.'" in failures(Generous)[ODD]
