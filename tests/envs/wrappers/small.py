"""Environments that every test of a wrapper uses: one authored each way."""

from __future__ import annotations

import asyncio

from turngym.envs import Env, assistant, questions, user

TASKS = questions(train={"Say red": "red", "Say blue": "blue"}, test={"Say green": "green"})


class Sync(Env):
    """Say the word; four tries; each answer has a random number in it."""

    tasks = TASKS
    reward_range = (0.0, 1.0)
    max_turns = 4

    def reset(self, *, seed=None, options=None):
        self.tries = []
        return super().reset(seed=seed, options=options)

    def step(self, action):
        return self.answered(action)

    def answered(self, action):
        self.tries.append(action.text)
        right = action.text == self.task.target
        over = right or len(self.tries) == self.max_turns
        info = {"reward_components": {"right": float(right)}}
        if over:
            info["metrics"] = {"success": float(right)}
        return (user(f"no {self.np_random.integers(1000)}"),), float(right), over, False, info

    @staticmethod
    def expert(task, history, rng):
        return assistant(task.target)


class Async(Sync):
    """The same as a coroutine that really waits."""

    async def astep(self, action):
        await asyncio.sleep(0)
        return self.answered(action)

    async def aclose(self):
        await asyncio.sleep(0)
        self.closed = True
