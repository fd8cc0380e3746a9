from __future__ import annotations

import math

import pytest

from turngym.envs import Env, Message, ToolCall, assistant, questions, user
from turngym.envs.errors import ContractError, EpisodeOver, InvalidAction, InvalidReward, UnknownTask
from turngym.envs.tasks import draw

TASKS = questions(train={"a": "a", "b": "b"}, test={"c": "c"})


def one_step(result):
    """An environment whose only step returns `result`."""

    class OneStep(Env):
        tasks = TASKS

        def step(self, action):
            return result

    env = OneStep()
    env.reset(seed=0)
    return env


def test_reset_tells_the_task_and_hides_it(echo):
    observation, info = echo.reset(seed=3, options={"task": "train-1"})
    assert observation == (user("Say blue"),)
    assert (info["task_id"], info["task_hash"]) == ("train-1", echo.task.content_hash)
    assert info["tools"] == ()
    assert info["limits"].max_turns is None
    assert info["anchor"] == "0"
    assert "task" not in info


def test_options_take_a_whole_task(echo):
    task = echo.tasks.get("test-0").model_copy(update={"id": "mine"})
    assert echo.reset(options={"task": task})[1]["task_id"] == "mine"


def test_seed_draws_from_the_split_as_draw_does(echo):
    for seed in range(20):
        echo.reset(seed=seed)
        assert echo.task == draw(echo.tasks, "train", seed)


def test_split_is_fixed_at_construction(echo):
    assert echo.split == "train"
    test = type(echo)(split="test")
    assert {test.reset(seed=seed)[1]["task_id"] for seed in range(5)} == {"test-0"}
    assert type(echo)(tasks=questions(dev={"x": "x"})).split == "dev"
    with pytest.raises(UnknownTask, match="train, test"):
        type(echo)(split="tset")


def test_reset_without_seed_continues_the_generator(echo):
    def episodes():
        echo.reset(seed=5)
        return [(echo.reset()[1]["task_id"], echo.noise) for _ in range(8)]

    first = episodes()
    assert first == episodes()
    assert len({noise[0] for _, noise in first}) > 1


def test_unknown_tasks_and_options_are_refused(echo):
    with pytest.raises(UnknownTask, match="no task 'nope'"):
        echo.reset(options={"task": "nope"})
    with pytest.raises(ValueError, match="unknown option 'tsak'"):
        echo.reset(options={"tsak": "train-0"})


@pytest.mark.parametrize("action", ["red", assistant("red"), {"role": "assistant", "content": "red"}])
def test_actions_in_every_form(echo, action):
    echo.reset(options={"task": "train-0"})
    _, reward, terminated, truncated, info = echo.step(action)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info == {"metrics": {"success": 1.0}, "reward_components": {}}
    assert echo.history[1] == assistant("red")


@pytest.mark.parametrize(
    "action", [user("red"), 7, None, {"role": "assistant", "colour": "red"}, {"role": "tool"}]
)
def test_other_actions_are_refused_and_the_episode_goes_on(echo, action):
    echo.reset(options={"task": "train-0"})
    with pytest.raises(InvalidAction):
        echo.step(action)
    assert echo.step("red")[2]


def test_step_needs_a_running_episode(echo):
    with pytest.raises(EpisodeOver, match="call reset first"):
        echo.step("red")
    echo.reset(options={"task": "train-0"})
    echo.step("red")
    with pytest.raises(EpisodeOver, match="is over"):
        echo.step("red")
    echo.close()
    with pytest.raises(EpisodeOver, match="closed"):
        echo.reset()


def test_a_failed_step_leaves_no_episode():
    class Broken(Env):
        tasks = TASKS

        def step(self, action):
            raise KeyError("bug")

    env = Broken()
    env.reset()
    with pytest.raises(KeyError):
        env.step("x")
    with pytest.raises(EpisodeOver, match="failed"):
        env.step("x")
    env.reset()


def test_law_06_terminated_and_truncated_never_both():
    with pytest.raises(ContractError, match="both flags"):
        one_step(((), 0.0, True, True, {})).step("x")


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, "1", None])
def test_rewards_are_finite_numbers(reward):
    if reward == "1":
        reward = "one"
    with pytest.raises(InvalidReward):
        one_step(((), reward, True, False, {})).step("x")


@pytest.mark.parametrize("result", [None, ((), 0.0, True, False), (("text",), 0.0, True, False, {})])
def test_a_step_returns_five_values_with_messages(result):
    with pytest.raises(ContractError):
        one_step(result).step("x")


def test_lists_of_messages_become_tuples():
    observation, *_ = one_step(([user("hi")], 0, False, False, {})).step("x")
    assert observation == (user("hi"),)


def test_calls_are_answered_where_there_are_no_tools(echo):
    echo.reset(seed=0)
    observation, *_ = echo.step(
        assistant(None, ToolCall.of("a", "{}", id="1"), ToolCall.of("b", "{}", id="2"))
    )
    assert [message.tool_call_id for message in observation] == ["1", "2", None]


def test_an_environment_needs_tasks_and_a_step():
    class NoTasks(Env):
        def step(self, action):
            return (), 0.0, True, False, {}

    class NoStep(Env):
        tasks = TASKS

    with pytest.raises(ContractError, match="no tasks"):
        NoTasks()
    with pytest.raises(ContractError, match="neither step nor astep"):
        NoStep()


def test_fork_goes_its_own_way(echo):
    echo.reset(seed=1, options={"task": "train-0"})
    echo.step("x")
    twin = echo.fork()
    assert twin.step("y") == echo.step("y")
    assert twin.tries == ["x", "y"]
    assert twin.tries is not echo.tries
    twin.step("red")
    assert echo.step("z")[2]


def test_a_snapshot_can_be_restored_twice_and_elsewhere(echo):
    echo.reset(seed=1, options={"task": "train-0"})
    snapshot = echo.snapshot()
    first = [echo.step("x"), echo.step("y")]
    for env in (echo, echo, type(echo)()):
        env.restore(snapshot)
        assert [env.step("x"), env.step("y")] == first
    with pytest.raises(TypeError, match="does not fit"):
        one_step(None).restore(snapshot)


def test_forks_share_what_is_declared_and_follow_references_to_themselves():
    class Linked(Env):
        tasks = TASKS
        shared = ("client",)

        def reset(self, *, seed=None, options=None):
            self.client = object()
            self.me = self
            self.last: list[Message] = []
            return super().reset(seed=seed, options=options)

        def step(self, action):
            self.last.append(action)
            return (), 0.0, False, False, {}

    env = Linked()
    env.reset(seed=0)
    env.step("x")
    twin = env.fork()
    assert twin.client is env.client
    assert twin.me is twin
    assert twin.tasks is env.tasks
    assert twin.last == env.last
    assert twin.last is not env.last
    assert twin.last[0] is env.last[0]
