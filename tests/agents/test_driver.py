"""How environments are stepped from an event loop: inline, awaited, or in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import gymnasium
import pytest

from turngym.agents import driver as driver_module
from turngym.agents.driver import EnvDriver
from turngym.envs.messages import assistant

from .conftest import TASKS, ScriptedEnv, Step

OPTIONS = {"task": TASKS.get("t0")}
SAY = assistant("a")


class AsyncEnv(ScriptedEnv):
    native_async = True
    awaited = 0
    loops: set[Any] = set()

    async def areset(self, *, seed: Any = None, options: Any = None) -> Any:
        await asyncio.sleep(0)
        return ScriptedEnv.reset(self, seed=seed, options=options)

    async def astep(self, action: Any) -> Any:
        await asyncio.sleep(0)
        self.awaited += 1
        return ScriptedEnv.step(self, action)

    async def aclose(self) -> None:
        await asyncio.sleep(0)
        self.awaited += 1


def drive(env: Any, steps: int = 2) -> list[Any]:
    async def main() -> list[Any]:
        driver = EnvDriver(env)
        await driver.reset(seed=1, options=OPTIONS)
        results = [await driver.step(SAY) for _ in range(steps)]
        await driver.close()
        return results

    return asyncio.run(main())


def test_an_environment_that_does_not_block_is_stepped_inline() -> None:
    env = ScriptedEnv()
    drive(gymnasium.wrappers.TimeLimit(env, max_episode_steps=9))
    assert env.thread_names == {"MainThread"}
    assert env.closed == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_blocking_environment_lives_in_one_thread_which_ends_with_it(wrapped: bool) -> None:
    env = ScriptedEnv()
    env.blocking = True
    drive(gymnasium.wrappers.TimeLimit(env, max_episode_steps=9) if wrapped else env)
    assert env.thread_names == {"turngym-env"}
    assert env.closed == 1
    deadline = time.monotonic() + 5
    while any(thread.name == "turngym-env" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_async_environment_is_awaited_bare_and_driven_in_a_thread_inside_wrappers() -> None:
    env = AsyncEnv()
    drive(env)
    assert env.awaited == 3
    assert env.thread_names == {"MainThread"}
    env = AsyncEnv()
    drive(gymnasium.wrappers.RecordEpisodeStatistics(env))
    assert env.awaited == 0
    assert env.thread_names == {"turngym-env"}
    assert env.closed == 1


@pytest.mark.parametrize("error", [KeyError("x"), SystemExit(3), StopIteration()])
def test_errors_come_out_of_the_thread(error: BaseException) -> None:
    env = ScriptedEnv([Step(error=error)])
    env.blocking = True
    with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        drive(env)


def test_closing_never_raises_and_never_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Bad(ScriptedEnv):
        def close(self) -> None:
            raise OSError("broken pipe")

    drive(Bad())
    assert "closing Bad failed" in caplog.text

    class Hung(ScriptedEnv):
        blocking = True

        def close(self) -> None:
            time.sleep(0.5)

    monkeypatch.setattr(driver_module, "CLOSE_TIMEOUT_S", 0.02)
    began = time.monotonic()
    drive(Hung())
    assert time.monotonic() - began < 0.4
    assert "Hung did not close within" in caplog.text


def test_a_result_that_nobody_waits_for_any_more_is_dropped() -> None:
    async def main() -> None:
        env = ScriptedEnv([Step(sleep_s=0.05)])
        env.blocking = True
        driver = EnvDriver(env)
        await driver.reset(seed=1, options=OPTIONS)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await driver.step(SAY)
        await driver.close()  # after the step, in the same thread
        assert env.closed == 1

    asyncio.run(main())


def test_an_environment_without_tasks_is_none_of_ours() -> None:
    driver = EnvDriver(gymnasium.make("CartPole-v1"))
    assert driver.env_id == "CartPole-v1"
    with pytest.raises(TypeError, match="has no task set"):
        _ = driver.tasks
