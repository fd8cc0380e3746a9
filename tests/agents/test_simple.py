"""Reference policies and scripts as agents."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from turngym.agents.errors import AgentError, PolicyError
from turngym.agents.failures import cause_of
from turngym.agents.protocols import EpisodeStart, NoiseKey
from turngym.agents.simple import PolicyAgent, ScriptedAgent, noise_generator
from turngym.agents.types import Action, Tokens
from turngym.envs.messages import Message, assistant, user
from turngym.envs.tasks import Task

NOISE = NoiseKey(run_seed=1, step=2, task="t0", sample=3)


def start(task: Task | None) -> EpisodeStart:
    return EpisodeStart("env", (), NOISE, task)


def replies(agent: Any, task: Task | None, observations: Sequence[Message]) -> list[Action]:
    async def main() -> list[Action]:
        player = agent.start(start(task))
        actions = [await player.act([message]) for message in observations]
        assert player.context_size(observations) is None
        assert player.final_context(observations) == ((), False)
        await player.close()
        await player.close()
        await agent.close()
        return actions

    return asyncio.run(main())


def test_a_policy_sees_the_task_the_whole_conversation_and_its_own_generator(task: Task) -> None:
    seen: list[list[str]] = []

    def policy(given: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
        seen.append([message.text for message in history])
        return assistant(f"{given.target} {rng.integers(1000)}")

    actions = replies(PolicyAgent(policy, "expert"), task, [user("q"), user("more")])
    assert seen == [["q"], ["q", actions[0].message.text, "more"]]
    rng = noise_generator(NOISE)
    assert [a.message.text for a in actions] == [f"0 {rng.integers(1000)}", f"0 {rng.integers(1000)}"]
    assert all(action.tokens is None for action in actions)


def test_a_policy_needs_the_task() -> None:
    with pytest.raises(AgentError, match="needs the episode's task"):
        PolicyAgent(lambda task, history, rng: assistant("x"), "expert").start(start(None))


def test_law_10_a_policy_that_raises_is_its_authors_mistake_and_never_scored(task: Task) -> None:
    def broken(given: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
        raise IndexError("list index out of range")

    with pytest.raises(PolicyError, match=f"failed on task {task.id}: IndexError: list index") as caught:
        replies(PolicyAgent(broken, "expert"), task, [user("q")])
    assert cause_of(caught.value, "agent") == "infrastructure"


def test_a_script_says_text_messages_and_whole_actions(task: Task) -> None:
    whole = Action(assistant("c"), Tokens((1,), (2,), (-0.5,)))
    agent = ScriptedAgent(["a", assistant("b"), whole], name="three")
    actions = replies(agent, task, [user("q")] * 3)
    assert [action.message.text for action in actions] == ["a", "b", "c"]
    assert actions[2] is whole
    assert agent.name == "three"


def test_a_script_may_depend_on_the_episode(task: Task) -> None:
    agent = ScriptedAgent(lambda episode: (f"{episode.noise.sample}-{n}" for n in range(2)))
    assert [a.message.text for a in replies(agent, task, [user("q")] * 2)] == ["3-0", "3-1"]


def test_a_script_that_ends_too_early_says_so(task: Task) -> None:
    with pytest.raises(LookupError, match="ended after 1 replies"):
        replies(ScriptedAgent(["a"]), task, [user("q")] * 2)


def test_law_09_noise_depends_on_its_key_alone() -> None:
    keys = [NoiseKey(r, s, t, k) for r in (0, 1) for s in (0, 1) for t in ("a", "b") for k in (0, 1)]
    draws = [float(noise_generator(key).random()) for key in keys]
    assert len(set(draws)) == len(keys)
    assert draws == [float(noise_generator(key).random()) for key in keys]
