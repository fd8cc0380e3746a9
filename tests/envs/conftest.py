"""Small environments that the tests of this package share."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator

import pytest
from gymnasium.envs import registration

from turngym.envs import Env, Message, StepResult, ToolEnv, questions, registry, reward, tool, user
from turngym.envs.errors import InfrastructureError
from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.service import sandbox_service

ECHO_TASKS = questions(train={"Say red": "red", "Say blue": "blue"}, test={"Say green": "green"})


class Echo(Env):
    """Say the word; three tries."""

    tasks = ECHO_TASKS
    reward_range = (0.0, 1.0)
    max_turns = 3

    def reset(self, *, seed=None, options=None):
        self.tries = []
        self.noise = [int(self.np_random.integers(1000))]
        prompt, _ = super().reset(seed=seed, options=options)
        return prompt, {"anchor": "0"}

    def step(self, action: Message) -> StepResult:
        self.tries.append(action.text)
        self.noise.append(int(self.np_random.integers(1000)))
        right = action.text == self.task.target
        over = right or len(self.tries) == self.max_turns
        info = {"metrics": {"success": float(right)}} if over else {}
        return (user(f"no {self.noise[-1]}"),), float(right), over, False, info

    @staticmethod
    def expert(task, history, rng):
        return Message(role="assistant", content=task.target)


class AsyncEcho(Env):
    """`Echo` as a coroutine that really waits."""

    tasks = ECHO_TASKS
    reward_range = (0.0, 1.0)

    async def areset(self, *, seed=None, options=None):
        await asyncio.sleep(0)
        return self.task.prompt, {}

    async def astep(self, action: Message) -> StepResult:
        await asyncio.sleep(0)
        right = float(action.text == self.task.target)
        return (), right, True, False, {"metrics": {"success": right}}

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.closed = getattr(self, "closed", 0) + 1

    @staticmethod
    def expert(task, history, rng):
        return Message(role="assistant", content=task.target)


class Desk(ToolEnv):
    """Tools of every sort, one reward of every sort."""

    tasks = questions(train={"2?": "2", "3?": "3"}, test={"4?": "4"})
    max_turns = 4

    @tool
    def double(self, number: int) -> int:
        """Twice a number."""
        return 2 * number

    @tool
    async def slow_double(self, number: int) -> int:
        """Twice a number, later."""
        await asyncio.sleep(0)
        return 2 * number

    @tool
    def explode(self) -> str:
        """Raise."""
        raise ZeroDivisionError("boom")

    @tool
    def outage(self) -> str:
        """Lose the service behind the tool."""
        raise InfrastructureError("the service is gone")

    @reward
    def correct(self, answer: str, target: str) -> float:
        return float(answer == target)

    @reward(weight=-0.1, when="turn")
    def cost(self) -> float:
        return 1.0

    @reward(weight=0)
    def length(self, answer: str) -> float:
        return min(1.0, len(answer) / 10)

    @staticmethod
    def expert(task, history, rng):
        return Message(role="assistant", content=task.target)


@pytest.fixture
def echo() -> Echo:
    return Echo()


@pytest.fixture
def async_echo() -> AsyncEcho:
    return AsyncEcho()


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Registrations made by a test are gone after it."""
    monkeypatch.setattr(registry, "_details", dict(registry._details))
    monkeypatch.setattr(registry, "_loaded_plugins", set(registry._loaded_plugins))
    before = dict(registration.registry)
    yield
    registration.registry.clear()
    registration.registry.update(before)


@pytest.fixture(scope="session")
def namespaces():
    """Skip the test where the kernel gives no namespaces, or fail it where TURNGYM_REQUIRE names `namespace`."""

    async def try_one():
        async with await sandbox_service().create():
            pass

    try:
        asyncio.run(try_one())
    except SandboxUnavailable as error:
        if "namespace" in re.findall(r"\w+", os.environ.get("TURNGYM_REQUIRE", "")):
            raise
        pytest.skip(str(error))
