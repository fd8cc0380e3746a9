"""Checks of the contract: what reset and step return, and what they put up with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import numpy as np
from gymnasium.utils import env_checker

from turngym.envs.checks.probe import Probe, require
from turngym.envs.messages import FunctionCall, Message, ToolCall, assistant
from turngym.envs.spaces import as_action
from turngym.envs.tasks import Task, TaskLimits


def gymnasium_check(probe: Probe) -> str:
    """`gymnasium.utils.env_checker.check_env`, without a warning."""
    with closing(probe.make()) as env:
        env_checker.check_env(env)
    return "check_env"


def infos_are_complete(probe: Probe) -> str:
    """The keys that runners and trainers rely on."""
    with closing(probe.make()) as env:
        for task in probe.tasks():
            played = probe.play(env, probe.policy("random"), task)
            info = played.opening[1]
            require(
                info.get("task_id") == task.id, f"info['task_id'] is {info.get('task_id')!r}, not {task.id!r}"
            )
            require(
                info.get("task_hash") == task.content_hash, "info['task_hash'] is not the task's content hash"
            )
            require(info.get("tools") == env.tools, "info['tools'] is not what the environment offers")
            require(isinstance(info.get("limits"), TaskLimits), "info['limits'] is missing")
            require("task" not in info, "info['task'] would give the hidden target away")
            for result in played.results:
                components = result[4].get("reward_components")
                require(isinstance(components, dict), "a step's info has no reward_components")
            require(
                not played.is_over or isinstance(played.metrics, dict), "the last step's info has no metrics"
            )
    return f"{len(probe.tasks())} episodes"


def flags_exclude_each_other(probe: Probe) -> str:
    """Never both flags, under any reference policy."""
    count = 0
    with closing(probe.make()) as env:
        for name in ("random", "null"):
            for task in probe.tasks():
                played = probe.play(env, probe.policy(name), task)
                count += len(played.results)
                require(
                    not any(r[2] and r[3] for r in played.results), f"both flags were set on task {task.id}"
                )
    return f"{count} steps"


def malformed_calls_are_answered(probe: Probe) -> str:
    """Every call of a message gets one tool message with its id, in order, whatever is wrong with it."""
    with closing(probe.make()) as env:
        name = env.tools[0].name if env.tools else "anything"
        broken = FunctionCall(name="", arguments="<tool_call>{oops")
        calls = (
            ToolCall(id="unparsed", function=broken, parse_error="not JSON"),
            ToolCall.of("no_such_tool", "{}", id="unknown"),
            ToolCall.of(name, "{", id="not-json"),
            ToolCall.of(name, "[1]", id="not-an-object"),
            ToolCall.of(name, '{"no_such_argument": NaN}', id="not-fitting"),
        )
        env.reset(seed=probe.seed, options={"task": probe.tasks()[0]})
        observation = env.step(assistant(None, *calls))[0]
        answers = [message for message in observation if message.role == "tool"]
        ids = [message.tool_call_id for message in answers]
        require(ids == [call.id for call in calls], f"answered were {ids}")
        require(all(message.text for message in answers), "an answer says nothing")
        _goes_on(env.history)
    return f"{len(calls)} broken calls in one message"


def _goes_on(history: list[Message]) -> None:
    asked = [call.id for message in history for call in message.tool_calls]
    answered = [message.tool_call_id for message in history if message.role == "tool"]
    require(asked == answered, "the recorded conversation has an orphan call")


def random_play(probe: Probe) -> str:
    """Random replies, valid and not, over the tasks again and again: the policy "random", and the action space."""
    steps = 0
    tasks = probe.tasks()
    with closing(probe.make()) as env:
        env.action_space.seed(probe.seed)
        policies = (probe.policy("random"), lambda *_: as_action(env.action_space.sample()), _rubbish)
        for number in range(probe.episodes):
            task, policy = tasks[number % len(tasks)], policies[number % len(policies)]
            steps += len(probe.play(env, policy, task, seed=probe.seed + number).results)
    return f"{probe.episodes} episodes, {steps} steps"


def _rubbish(_task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Pieces of what was said so far, as text or as calls."""
    said = " ".join(message.text for message in history[-3:]) or "?"
    start, end = sorted(int(place) for place in rng.integers(len(said) + 1, size=2))
    if rng.random() < 0.5:
        return assistant(said[start:end])
    call = FunctionCall(name=said[start : start + 5], arguments=said[start:end])
    error = "cut off" if rng.random() < 0.5 else None
    return assistant(None, ToolCall(id=f"call_{len(history)}", function=call, parse_error=error))


def close_twice(probe: Probe) -> str:
    """Before a reset, after one, and twice."""
    probe.make().close()
    env = probe.make()
    env.reset(seed=probe.seed)
    env.close()
    env.close()
    return "before a reset and in mid-episode"
