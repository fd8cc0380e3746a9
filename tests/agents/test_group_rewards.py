"""A group is compared once, when it is whole; who was cut or failed stays outside; nobody is scored 0 by accident."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

from turngym.agents.errors import EngineError
from turngym.agents.group_rewards import group_rewards_of, paid_batches
from turngym.agents.limits import Limits
from turngym.agents.protocols import NoiseKey
from turngym.agents.runner import EpisodeRequest, run_batches
from turngym.agents.simple import ScriptedAgent
from turngym.envs import ListTasks, Task, ToolCall, ToolEnv, assistant, reward, tool, user

TASKS = ListTasks(train=[Task(id=f"t{n}", prompt=(user(str(n)),), target="x") for n in range(3)])
LOOK = assistant(None, ToolCall.of("look", {}))


@tool
def look() -> str:
    """Look."""
    return "seen"


@reward
def correct(answer, target) -> float:
    return float(answer.startswith(target))


@reward(group=True, weight=0.5)
def brevity(answers) -> list[float]:
    return [float(len(answer) == min(map(len, answers))) for answer in answers]


@reward(group=True, weight=0.0, range=(0, 99))
def size(trajectories) -> list[float]:
    return [float(len(trajectories)) for _ in trajectories]


def make(*group_rewards):
    return lambda: ToolEnv(tasks=TASKS, tools=[look], rewards=[correct, *group_rewards])


def requests(samples):
    for number in range(3):
        task = TASKS.at("train", number)
        for sample in range(samples):
            yield EpisodeRequest(task, sample, NoiseKey(0, 0, task.id, sample), sample, number, "e")


def play(script, samples, *group_rewards, retries=1):
    make_env = make(*group_rewards)

    async def main():
        batches = run_batches(
            make_env,
            ScriptedAgent(script),
            requests(samples),
            limits=Limits(max_turns=2),
            concurrency=5,
            retries=0,
        )
        sizes = Counter(request.group for request in requests(samples))
        paid = paid_batches(
            batches,
            group_rewards_of(make_env()),
            group_size=lambda request: sizes[request.group],
            retries=retries,
        )
        async with contextlib.aclosing(paid):
            return [batch async for batch in paid]

    return asyncio.run(main())


def script(episode):
    return [LOOK, "x" * (1 + episode.noise.sample)]


def test_each_member_is_paid_on_its_last_turn():
    batches = play(script, 3, brevity, size)
    finished = [one for batch in batches for one in batch]
    assert len(finished) == 9
    for request, trajectory in finished:
        won = float(request.sample == 0)
        assert [turn.reward for turn in trajectory.turns] == [0.0, 1.0 + 0.5 * won]
        assert trajectory.turns[-1].reward_components == {"correct": 1.0, "brevity": won}
        assert trajectory.metrics["size"] == 3.0
        assert trajectory.metrics["success"] == 1.0
        assert trajectory.group_view is None


def test_groups_come_whole():
    for batch in play(script, 3, brevity):
        assert set(Counter(request.group for request, _ in batch).values()) == {3}


def test_without_group_rewards_nothing_waits_and_nothing_changes():
    finished = [one for batch in play(script, 3) for one in batch]
    assert {trajectory.reward for _, trajectory in finished} == {1.0}


def test_who_was_cut_or_failed_is_not_compared():
    def mixed(episode):
        if episode.noise.sample == 0:
            raise EngineError("gone")
        return [LOOK, LOOK] if episode.noise.sample == 1 else script(episode)

    for request, trajectory in (one for batch in play(mixed, 4, brevity, size) for one in batch):
        kind, components = trajectory.outcome.kind, [turn.reward_components for turn in trajectory.turns][-1:]
        if request.sample == 0:
            assert (kind, components) == ("failed", [])
        elif request.sample == 1:
            assert (kind, components) == ("truncated", [{}])
        else:
            assert components[0]["brevity"] == float(request.sample == 2)
            assert trajectory.metrics["size"] == 2.0


def test_one_alone_has_nothing_to_be_compared_with():
    for _, trajectory in (one for batch in play(script, 1, brevity, size) for one in batch):
        assert trajectory.reward == 1.0
        assert "brevity" not in trajectory.turns[-1].reward_components
        assert "size" not in trajectory.metrics


@pytest.mark.parametrize("result", [None, [2.0, 2.0]])
def test_law_10_a_comparison_that_fails_scores_nobody(result):
    asked = []

    @reward(group=True)
    def broken(answers):
        asked.append(answers)
        return result

    finished = [one for batch in play(script, 2, broken, retries=2) for one in batch]
    assert len(finished) == 6
    for _, trajectory in finished:
        assert not trajectory.outcome.scored
        assert "'broken' of ToolEnv returned" in trajectory.outcome.error
    assert len(asked) == 3 * 3


def test_a_comparison_may_succeed_at_the_second_attempt():
    failures = iter([True, False, True, False, True, False])

    @reward(group=True)
    async def shaky(answers):
        if next(failures):
            raise ConnectionError("judge is away")
        return [1.0 for _ in answers]

    finished = [one for batch in play(script, 2, shaky) for one in batch]
    assert {trajectory.reward for _, trajectory in finished} == {2.0}


def test_a_reward_that_becomes_too_great_is_no_score():
    @reward(group=True, weight=1e9, range=(0, 9))
    def great(answers):
        return [9.0 for _ in answers]

    finished = [one for batch in play(script, 2, great) for one in batch]
    assert all("the reward is 9000000001.0" in trajectory.outcome.error for _, trajectory in finished)


def test_wrapped_environments_declare_theirs_too():
    assert [one.name for one in group_rewards_of(RecordEpisodeStatistics(make(brevity)()))] == ["brevity"]


def test_leaving_early_closes_every_environment():
    made = []

    def make_env():
        made.append(make(brevity)())
        return made[-1]

    async def main():
        batches = run_batches(make_env, ScriptedAgent(script), requests(2), concurrency=2)
        async with contextlib.aclosing(
            paid_batches(batches, group_rewards_of(make()()) or (), group_size=lambda _: 2)
        ) as paid:
            async for _ in paid:
                break

    asyncio.run(main())
    assert made
    assert all(env._phase.name == "CLOSED" for env in made)
