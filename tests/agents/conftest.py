"""A scripted environment, so that every way in which an episode can go is one line of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import pytest

from turngym.agents.protocols import EpisodeStart, NoiseKey
from turngym.agents.types import Action, Tokens
from turngym.envs.messages import Message, assistant, user
from turngym.envs.tasks import ListTasks, Task, TaskLimits

TASKS = ListTasks(
    test=[Task(id=f"t{i}", prompt=(user(f"question {i}"),), target=i) for i in range(40)]
    + [
        Task(
            id="short",
            prompt=(user("quick"),),
            limits=TaskLimits(max_turns=2, max_tokens=7, max_seconds=0.05),
        )
    ]
)


@dataclass
class Step:
    """What the scripted environment does in one step."""

    reward: Any = 0.0
    terminated: bool = False
    truncated: bool = False
    text: str = "go on"
    info: Mapping[str, Any] = field(default_factory=dict)
    error: BaseException | None = None
    sleep_s: float = 0.0


class ScriptedEnv(gymnasium.Env[Any, Any]):
    """Does in turn n what `script[n]` says, and goes on for ever after the script."""

    blocking = False
    native_async = False
    action_space = gymnasium.spaces.Discrete(1)
    observation_space = gymnasium.spaces.Discrete(1)

    def __init__(self, script: Sequence[Step] = (), reset_error: BaseException | None = None) -> None:
        self.tasks = TASKS
        self.script = script
        self.reset_error = reset_error
        self.actions: list[Message] = []
        self.resets = 0
        self.closed = 0
        self.thread_names: set[str] = set()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.thread_names.add(threading.current_thread().name)
        if self.reset_error is not None:
            raise self.reset_error
        self.resets += 1
        self.actions = []
        task = options["task"] if options else TASKS.at("test", (seed or 0) % 40)
        info = {
            "task_id": task.id,
            "task_hash": task.content_hash,
            "tools": (),
            "limits": task.limits,
            "anchor": "s0",
        }
        return task.prompt, info

    def step(self, action: Message) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.thread_names.add(threading.current_thread().name)
        self.actions.append(action)
        turn = len(self.actions)
        step = self.script[turn - 1] if turn <= len(self.script) else Step()
        if step.sleep_s:
            time.sleep(step.sleep_s)
        if step.error is not None:
            raise step.error
        info = {"anchor": f"s{turn}", **step.info}
        return (user(step.text),), step.reward, step.terminated, step.truncated, info

    def close(self) -> None:
        self.closed += 1


class TokenAgent:
    """Says `ok`, counts its context like a real agent, and records what it was asked."""

    name = "tokens"

    def __init__(self, act: Callable[[TokenPlayer, Sequence[Message]], Any] | None = None) -> None:
        self.on_act = act
        self.players: list[TokenPlayer] = []

    def start(self, episode: EpisodeStart) -> TokenPlayer:
        self.players.append(TokenPlayer(self, episode))
        return self.players[-1]

    async def close(self) -> None:
        return None


class TokenPlayer:
    """Two tokens for each new message, three for each action."""

    def __init__(self, agent: TokenAgent, episode: EpisodeStart) -> None:
        self.agent = agent
        self.episode = episode
        self.size = 0
        self.budgets: list[int | None] = []
        self.closed = 0

    def context_size(self, new_messages: Sequence[Message]) -> int:
        return self.size + 2 * len(new_messages)

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:
        self.budgets.append(max_tokens)
        reply: Any = None
        if self.agent.on_act is not None:
            reply = self.agent.on_act(self, new_messages)
            if hasattr(reply, "__await__"):
                reply = await reply
        if isinstance(reply, Action):
            return reply
        count = 3 if max_tokens is None else min(3, max_tokens)
        tokens = Tokens((1,) * (2 * len(new_messages)), tuple(range(count)), (-0.5,) * count)
        self.size += 2 * len(new_messages) + count
        return Action(assistant("ok"), tokens, "stop" if count == 3 else "length")

    def final_context(self, new_messages: Sequence[Message]) -> tuple[tuple[int, ...], bool]:
        return (9,) * (2 * len(new_messages)), False

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def noise() -> NoiseKey:
    return NoiseKey(run_seed=0, step=0, task="t0", sample=3)


@pytest.fixture
def task() -> Task:
    return TASKS.get("t0")
