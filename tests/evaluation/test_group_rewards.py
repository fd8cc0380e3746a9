"""An evaluation compares the samples of each task, stores what that pays, and resumes with whole groups."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from turngym.agents.simple import ScriptedAgent
from turngym.envs import ToolEnv, questions, reward
from turngym.evaluation.runner import aevaluate, evaluate
from turngym.evaluation.store import RunStore

TASKS = questions(test={f"{n}?": str(n) for n in range(4)})


class Ranked(ToolEnv):
    """Say the number; the shortest answer of a group earns a quarter more."""

    tasks = TASKS

    @reward
    def correct(self, answer, target) -> float:
        return float(answer.strip() == target)

    @reward(group=True, weight=0.25)
    @staticmethod
    def brevity(answers) -> list[float]:
        return [float(len(answer) == min(map(len, answers))) for answer in answers]


def say(episode):
    return [episode.task.target + " " * episode.noise.sample]


def rewards(folder: Path) -> dict[tuple[str, int], float]:
    with RunStore(folder, read_only=True) as store:
        return {(one.task_id, one.sample): one.reward for one in store.summaries()}


def test_what_a_comparison_pays_is_reported_and_stored(tmp_path: Path):
    report = evaluate(Ranked, ScriptedAgent(say), samples=3, out=tmp_path)
    assert report.episodes == 12
    assert report.reward.mean == pytest.approx(1 + 0.25 / 3)
    assert report.success.mean == 1.0
    stored = rewards(tmp_path)
    assert stored == {(f"test-{n}", k): 1.25 if k == 0 else 1.0 for n in range(4) for k in range(3)}
    with RunStore(tmp_path, read_only=True) as store:
        first = next(iter(store.episodes()))
    assert first.trajectory.turns[-1].reward_components == {"correct": 1.0, "brevity": 1.0}


def test_one_sample_is_compared_with_nobody():
    assert evaluate(Ranked, ScriptedAgent(say), samples=1).reward.mean == 1.0


class Stalls(ScriptedAgent):
    """Plays seven episodes, and never comes back from the eighth: in the middle of the third group."""

    def __init__(self):
        super().__init__(say)
        self.started = 0
        self.stalled = asyncio.Event()

    def start(self, episode):
        self.started += 1
        player = super().start(episode)
        act, is_last = player.act, self.started == 8

        async def slow(new, *, max_tokens=None):
            if is_last:
                self.stalled.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            return await act(new, max_tokens=max_tokens)

        player.act = slow
        return player


def test_law_13_an_interrupted_evaluation_is_resumed_with_whole_groups(tmp_path: Path):
    async def interrupted():
        agent = Stalls()
        run = asyncio.create_task(aevaluate(Ranked, agent, samples=3, out=tmp_path, concurrency=1))
        await asyncio.wait_for(agent.stalled.wait(), timeout=30)
        for _ in range(10):  # what has finished is stored meanwhile
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.wait([run])

    asyncio.run(interrupted())
    assert len(rewards(tmp_path)) == 6
    report = evaluate(Ranked, ScriptedAgent(say), samples=3, out=tmp_path, resume=True, concurrency=1)
    assert (report.episodes, report.new_episodes) == (12, 6)
    assert rewards(tmp_path) == {
        (f"test-{n}", k): 1.25 if k == 0 else 1.0 for n in range(4) for k in range(3)
    }
