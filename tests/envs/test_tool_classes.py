"""The methods of a plain class are tools, each episode has an object of its own, and a fork copies it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from turngym.envs import ToolCall, ToolEnv, assistant, check, questions, register, reward, tool
from turngym.envs.errors import ContractError
from turngym.envs.tool_classes import fresh, tools_of


class Notebook:
    """Pages by name."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}

    def write(self, page: str, text: str) -> None:
        """Write a page.

        Args:
            page: its name.
        """
        self.pages[page] = text

    async def read(self, page: str) -> str:
        """Read a page."""
        await asyncio.sleep(0)
        return self.pages[page]

    def _secret(self) -> None:
        """No tool."""


class Dice:
    def __init__(self, rng, task, sides: int = 6) -> None:
        self.rng, self.sides, self.asked = rng, sides, task.id

    @tool(name="roll_dice")
    def roll(self) -> int:
        """Roll."""
        return int(self.rng.integers(1, self.sides + 1))

    def helper(self, untyped):
        """Public, but only marked methods are tools here."""


class Desk(ToolEnv):
    """Write the answer down."""

    tasks = questions(train={"2?": "two", "3?": "three"}, test={"4?": "four"})
    tool_classes = (Notebook,)
    max_turns = 3

    @tool
    def pages(self) -> int:
        """How many pages there are."""
        return len(self.tool_object(Notebook).pages)

    @reward
    def written(self, target: str) -> float:
        return float(self.tool_object(Notebook).pages.get("answer") == target)

    @staticmethod
    def expert(task, history, rng):
        if history[-1].role == "tool":
            return assistant("done")
        return assistant(None, ToolCall.of("write", {"page": "answer", "text": task.target}))


def says(env: ToolEnv, name: str, **arguments: Any) -> str:
    return env.step(assistant(None, ToolCall.of(name, arguments)))[0][0].text


def test_methods_are_tools_with_schemas_in_the_order_of_writing():
    env = Desk()
    assert [spec.name for spec in env.tools] == ["pages", "write", "read"]
    assert env.tools[1].function.description == "Write a page."
    assert env.tools[1].function.parameters["properties"]["page"]["description"] == "its name."
    assert "self" not in env.tools[1].function.parameters["properties"]


def test_each_episode_has_a_fresh_object():
    env = Desk()
    for _ in range(2):
        env.reset(seed=0)
        assert says(env, "pages") == "0"
        assert says(env, "write", page="a", text="b") == "done"
        assert says(env, "read", page="a") == "b"


def test_async_methods_make_the_environment_wait_and_sync_ones_do_not():
    assert Desk().native_async
    assert not Desk(only_tools=["write", "pages"]).native_async


def test_wrong_calls_are_answered():
    env = Desk()
    env.reset(seed=0)
    assert says(env, "write", page=1, text="b").startswith("Error: argument 'page'")
    assert says(env, "read", page="none") == "Error: read failed: KeyError: 'none'"


def test_a_fork_copies_the_object():
    env = Desk()
    env.reset(seed=0, options={"task": "train-0"})
    says(env, "write", page="answer", text="wrong")
    twin = env.fork()
    assert twin.tool_object(Notebook) is not env.tool_object(Notebook)
    says(twin, "write", page="answer", text="two")
    assert twin.step("done")[1] == 1.0
    assert env.step("done")[1] == 0.0


@pytest.mark.usefixtures("clean_registry")
def test_it_keeps_every_law():
    register("t/Desk-v0", Desk)
    assert [result for result in check("t/Desk-v0", tasks=2, episodes=6) if not result.ok] == []


def test_constructors_get_what_they_name():
    env = Desk(tool_classes=[Dice])
    env.reset(seed=3, options={"task": "train-1"})
    assert env.tool_object(Dice).rng is env.np_random
    assert (env.tool_object(Dice).asked, env.tool_object(Dice).sides) == ("train-1", 6)
    rolls = [says(env, "roll_dice") for _ in range(2)]
    env.reset(seed=3, options={"task": "train-1"})
    assert [says(env, "roll_dice") for _ in range(2)] == rolls
    twin = env.fork()
    assert twin.tool_object(Dice).rng is twin.np_random
    assert [spec.name for spec in env.tools] == ["pages", "write", "read", "roll_dice"]
    assert Desk().tool_classes == (Notebook,)


def test_what_is_no_tool_class_is_refused():
    class Empty:
        def _hidden(self) -> None: ...

    class Greedy:
        def __init__(self, target) -> None: ...

        def act(self) -> None:
            """Act."""

    class Untyped:
        def act(self, what):
            """Act."""

    with pytest.raises(ContractError, match="Empty has no method to be a tool"):
        tools_of(Empty)
    with pytest.raises(ContractError, match="a tool class is a class"):
        Desk(tool_classes=[Notebook()])
    with pytest.raises(ContractError, match="Notebook is a class: pass it as tool_classes"):
        Desk(tools=[Notebook])
    with pytest.raises(ContractError, match="tool class Greedy asks for 'target'; it can have task and rng"):
        Desk(tool_classes=[Greedy])
    with pytest.raises(ContractError, match="'what' has no type"):
        tools_of(Untyped)
    with pytest.raises(ContractError, match="two tools are called 'write'"):
        Desk(tool_classes=[Notebook])


def test_bases_count_and_overrides_hold():
    class Diary(Notebook):
        def write(self, page: str, text: str) -> None:
            """Write a page for ever."""
            self.pages.setdefault(page, text)

        def date(self) -> str:
            """Today."""
            return "Monday"

        @staticmethod
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        size = 7

        @property
        def last(self) -> str:
            """No tool."""
            return "x"

    assert [one.spec.name for one in tools_of(Diary)] == ["write", "read", "date", "add"]
    assert tools_of(Diary)[0].spec.function.description == "Write a page for ever."
    assert isinstance(fresh(Diary, None), Diary)

    class Rich(Desk):
        tool_classes = (Diary,)

    env = Rich()
    env.reset(seed=0)
    assert says(env, "add", a=1, b=2) == "3"
    assert says(env, "date") == "Monday"
