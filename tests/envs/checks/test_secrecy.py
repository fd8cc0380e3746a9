"""Leaks of every sort are found; what only looks like one is not."""

from __future__ import annotations

import pytest

from turngym.envs import ListTasks, Task, ToolCall, assistant, questions, reward, tool, user
from turngym.envs.checks.secrecy import _holds, _needles
from turngym.envs.messages import FunctionSpec, ToolSpec

from .good import Good, Shelf, failures

pytestmark = pytest.mark.usefixtures("clean_registry")

LAW = "the hidden target stays hidden"


def _nested(name, question, word, code):
    target = {"word": word, "more": [{"code": code}]}
    return Task(id=name, prompt=(user(question),), target=target, metadata={"note": code})


class Nested(Shelf):
    """The target has parts."""

    tasks = ListTasks(
        train=[_nested("a", "First?", "reddish", 48151), _nested("b", "Second?", "bluish", 62342)],
        test=[_nested("c", "Third?", "greenish", 31415)],
    )

    @reward
    def correct(self, answer, target) -> float:
        return float(answer == target["word"])

    @staticmethod
    def expert(task, history, rng):
        return assistant(task.target["word"])


class TellsAPart(Nested):
    async def astep(self, action):
        observation, *rest = await super().astep(action)
        return (*observation, user(f"code {self.task.target['more'][0]['code']}")), *rest


class TellsTheWorld(Nested):
    """The same text, but from the world: an order's number, say."""

    async def astep(self, action):
        observation, *rest = await super().astep(action)
        return (*observation, user(f"code {self.task.metadata['note']}")), *rest


class TellsByTool(Nested):
    @tool
    def hint(self) -> str:
        """Help."""
        return self.task.target["word"]


class InInfo(Good):
    def reset(self, *, seed=None, options=None):
        prompt, info = super().reset(seed=seed, options=options)
        return prompt, info | {"debug": [{"answer": self.task.target}]}


class InStepInfo(Good):
    def step(self, action):
        *rest, info = super().step(action)
        return *rest, info | {"debug": self.task.target}


class InToolDescription(Good):
    def reset(self, *, seed=None, options=None):
        function = FunctionSpec(name="look", description=f"Finds {self.task.target}", parameters={})
        self.tools = (ToolSpec(function=function),)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, *rest = super().step(action)
        answers = [user("no")] + [
            answer
            for call in action.tool_calls
            for answer in [type(observation[0])(role="tool", content="?", tool_call_id=call.id)]
        ]
        return tuple(answers), *rest


class Thinks(Good):
    def step(self, action):
        _, *rest = super().step(action)
        message = user("no").model_copy(update={"reasoning_content": f"it is {self.task.target}"})
        return (message,), *rest


class Choices(Good):
    """The answer is one of the words that every episode names."""

    tasks = questions(train={"First?": "north", "Second?": "south"}, test={"Third?": "west"})

    def reset(self, *, seed=None, options=None):
        prompt, info = super().reset(seed=seed, options=options)
        return (*prompt, user("north, south or west?")), info


class Chance(Good):
    """A word inside another word, and a number inside another number."""

    tasks = questions(train={"First?": "rain", "Second?": "1234"}, test={"Third?": "snow"})

    def step(self, action):
        _, *rest = super().step(action)
        return (user("a train of 12345 and 0x1234a"),), *rest


class Finds(Shelf):
    """A tool finds the answer: that is what it is there for."""

    tasks = questions(train={"First?": "reddish", "Second?": "bluish"}, test={"Third?": "greenish"})

    @tool
    def search(self) -> str:
        """Everything that there is."""
        return {"First?": "reddish", "Second?": "bluish", "Third?": "greenish"}[self.task.prompt[0].text]

    @staticmethod
    def expert(task, history, rng):
        return assistant(task.target)


@pytest.mark.parametrize("cls", [TellsAPart, TellsByTool, InInfo, InStepInfo, InToolDescription, Thinks])
def test_a_leak_is_found(cls):
    assert LAW in failures(cls, tasks=3, episodes=2)


@pytest.mark.parametrize("cls", [Nested, TellsTheWorld, Choices, Chance, Finds])
def test_what_only_looks_like_a_leak_is_none(cls):
    assert LAW not in failures(cls, tasks=3, episodes=2)


def test_where_a_leak_is():
    assert failures(InStepInfo)[LAW] == (
        "info['debug'] in step 0 of task train-0 spells out its target ('reddish')"
    )
    assert failures(InInfo)[LAW] == "the info of reset of task train-0 depends on its hidden target"


def test_needles():
    assert _needles("word") == (frozenset({"word"}), frozenset())
    assert _needles(42) == (frozenset(), frozenset())
    assert _needles(True) == (frozenset(), frozenset())
    assert _needles({"a": ["long", 12345, None, False, "x"]})[1] == {"long", "12345"}


def test_words_of_their_own():
    assert _holds("It is Reddish.", "reddish")
    assert _holds("pay $12.50 now", "$12.50")
    assert not _holds("a train", "rain")
    assert not _holds("12345", "1234")


def test_the_agents_own_words_are_no_leak():
    class Parrot(Good):
        tasks = questions(train={"First?": "yes no", "Second?": "help red"}, test={"Third?": "open"})

        def step(self, action):
            _, *rest = super().step(action)
            return (user(f"you said {action.text}"),), *rest

    assert LAW not in failures(Parrot, tasks=3)


def test_calls_are_spoken_too():
    class Repeats(Shelf):
        @tool
        def say(self, word: str) -> str:
            """Say a word."""
            return word

        @staticmethod
        def random(task, history, rng):
            return assistant(None, ToolCall.of("say", {"word": task.target}))

        policies = {"random": random}

    assert LAW not in failures(Repeats)
