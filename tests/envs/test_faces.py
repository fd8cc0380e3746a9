from __future__ import annotations

import asyncio

import pytest

from turngym.envs import Env, questions
from turngym.envs.errors import ContractError, EpisodeOver

TASKS = questions(train={"a": "a"})
END = ((), 1.0, True, False, {})


def test_sync_authors_get_an_async_face_inline(echo):
    async def play():
        await echo.areset(options={"task": "train-0"})
        return await echo.astep("red")

    assert not echo.native_async
    assert asyncio.run(play())[1:3] == (1.0, True)


def test_async_authors_get_a_sync_face(async_echo):
    assert async_echo.native_async
    async_echo.reset(options={"task": "train-0"})
    assert async_echo.step("red")[1:3] == (1.0, True)


def test_the_sync_face_works_inside_a_running_loop(async_echo):
    async def notebook_cell():
        async_echo.reset(options={"task": "train-0"})
        return async_echo.step("red")

    assert asyncio.run(notebook_cell())[1] == 1.0


def test_close_runs_once_whichever_face(async_echo):
    async_echo.close()
    async_echo.close()
    asyncio.run(async_echo.aclose())
    assert async_echo.closed == 1


def test_writing_both_faces_is_refused():
    for verb in ("reset", "step", "close"):
        with pytest.raises(ContractError, match=f"writes both {verb} and a{verb}"):
            type("Both", (Env,), {verb: lambda self: None, f"a{verb}": lambda self: None})


def test_async_and_name_must_agree():
    async def step(self, action):
        return END

    with pytest.raises(ContractError, match="async def astep"):
        type("Wrong", (Env,), {"step": step})
    with pytest.raises(ContractError, match="write `def step`"):
        type("Wrong", (Env,), {"astep": lambda self, action: END})


@pytest.mark.parametrize("base_is_async", [False, True])
@pytest.mark.parametrize("sub_is_async", [False, True])
def test_super_calls_do_the_bookkeeping_once(base_is_async, sub_is_async):
    class SyncBase(Env):
        tasks = TASKS

        def step(self, action):
            return END

    class AsyncBase(Env):
        tasks = TASKS

        async def astep(self, action):
            await asyncio.sleep(0)
            return END

    base: type[Env] = AsyncBase if base_is_async else SyncBase

    class SyncSub(base):
        def step(self, action):
            return super().step(action)[0], 2.0, True, False, {}

    class AsyncSub(base):
        async def astep(self, action):
            return (await super().astep(action))[0], 2.0, True, False, {}

    env = AsyncSub() if sub_is_async else SyncSub()
    env.reset(seed=0)
    assert env.step("x")[1] == 2.0
    assert len(env.history) == 2  # the prompt, the action: once
    with pytest.raises(EpisodeOver):
        env.step("x")
    env.reset(seed=0)
    assert asyncio.run(env.astep("x"))[1] == 2.0


def test_gymnasiums_habit_of_calling_super_reset_is_harmless():
    class Habit(Env):
        tasks = TASKS

        def reset(self, *, seed=None, options=None):
            before = self.np_random.bit_generator.state
            super().reset(seed=seed, options=options)
            assert self.np_random.bit_generator.state == before
            return self.task.prompt, {}

        def step(self, action):
            return END

    env = Habit()
    env.reset(seed=4)
    assert env.history == list(env.task.prompt)


def test_a_second_step_during_a_step_is_refused(async_echo):
    async def overlap():
        await async_echo.areset(options={"task": "train-0"})
        return await asyncio.gather(async_echo.astep("red"), async_echo.astep("red"), return_exceptions=True)

    first, second = asyncio.run(overlap())
    assert first[1] == 1.0
    assert isinstance(second, EpisodeOver)
