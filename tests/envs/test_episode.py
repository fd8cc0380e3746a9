"""What a reward sees of the episode: all of it up to this moment, and nothing twice."""

from __future__ import annotations

import dataclasses

import pytest

from turngym.envs import (
    EpisodeView,
    ListTasks,
    Task,
    ToolCall,
    ToolEnv,
    assistant,
    questions,
    reward,
    tool,
    user,
)
from turngym.envs.messages import tool_result


class Watched(ToolEnv):
    """Every turn and the end keep what they saw."""

    tasks = questions(train={"?": "x"})
    max_turns = 3
    shared = ("seen",)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.seen = []

    @tool
    def double(self, number: int) -> int:
        """Twice."""
        return 2 * number

    @reward(when="turn", weight=0.5)
    def each(self, trajectory) -> float:
        self.seen.append(trajectory)
        return 1.0

    @reward
    def last(self, trajectory) -> float:
        self.seen.append(trajectory)
        return 1.0


RIGHT, WRONG = ToolCall.of("double", {"number": 2}, id="a"), ToolCall.of("double", "{", id="b")


def test_a_view_is_the_episode_so_far():
    env = Watched()
    env.reset(seed=0)
    first = assistant("working", RIGHT, WRONG)
    (four, error), *_ = env.step(first)
    env.step("x")
    turn, end_turn, end = env.seen
    assert turn.messages == (user("?"), first, four, error)
    assert turn.actions == (first,)
    assert [(use.call.id, use.result.text[:5], use.in_order) for use in turn.tool_uses] == [
        ("a", "4", True),
        ("b", "Error", False),
    ]
    assert (turn.turn, turn.paid, turn.answer) == (1, (), "")
    assert end_turn == end
    assert end.messages == (user("?"), first, four, error, assistant("x"))
    assert end.actions == (first, assistant("x"))
    assert (end.turn, end.paid, end.answer) == (2, (0.5,), "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        end.answer = "y"


def test_between_steps_and_after_the_end():
    env = Watched()
    env.reset(seed=0)
    assert env.trajectory == EpisodeView((user("?"),), (), 0, (), "")
    env.step(assistant(None, RIGHT))
    assert [message.role for message in env.trajectory.messages] == ["user", "assistant", "tool"]
    env.step("x")
    assert env.trajectory.paid == (0.5, 1.5)
    env.reset(seed=0)
    assert env.trajectory == EpisodeView((user("?"),), (), 0, (), "")


def test_a_fork_has_an_episode_of_its_own():
    env = Watched()
    env.reset(seed=0)
    env.step(assistant(None, RIGHT))
    twin = env.fork()
    twin.step(assistant(None, RIGHT))
    assert len(env.trajectory.tool_uses) == 1
    assert len(twin.trajectory.tool_uses) == 2
    assert twin.trajectory.tool_uses[0] == env.trajectory.tool_uses[0]


def test_calls_that_a_prompt_shows_are_none_of_the_episode_s():
    shown = (user("1?"), assistant(None, RIGHT), tool_result(RIGHT, "4"), assistant("4"), user("2?"))
    env = Watched(tasks=ListTasks(train=[Task(id="t", prompt=shown)]))
    env.reset(seed=0)
    assert env.trajectory.tool_uses == ()
    env.step(assistant(None, WRONG))
    assert [(use.call, use.in_order) for use in env.trajectory.tool_uses] == [(WRONG, False)]
