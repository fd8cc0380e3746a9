"""Many episodes: bounded, in order, isolated, retried in fresh environments, cleaned up on any exit."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.errors import EngineError
from turngym.agents.limits import Limits
from turngym.agents.protocols import EpisodeStart, NoiseKey
from turngym.agents.runner import BATCH, EpisodeRequest, Finished, episode_seed, run_batches, run_episodes
from turngym.agents.simple import ScriptedAgent, noise_generator
from turngym.agents.types import Outcome
from turngym.envs.errors import InfrastructureError
from turngym.envs.messages import Message

from .conftest import TASKS, ScriptedEnv, Step, TokenAgent


def requests(count: int) -> Iterator[EpisodeRequest]:
    for number in range(count):
        task = TASKS.at("test", number % 40)
        sample = number // 40
        noise = NoiseKey(run_seed=0, step=0, task=task.id, sample=sample)
        yield EpisodeRequest(task, episode_seed(0, 0, task.id), noise, sample, number % 40, "scripted")


class Factory:
    """Makes scripted environments and remembers them."""

    def __init__(self, *script: Step) -> None:
        self.script = script or (Step(), Step(1.0, terminated=True))
        self.made: list[ScriptedEnv] = []

    def __call__(self) -> ScriptedEnv:
        self.made.append(ScriptedEnv(self.script))
        return self.made[-1]

    def assert_all_closed(self) -> None:
        assert [env.closed for env in self.made] == [1] * len(self.made)


def run(make_env: Any, agent: Any, wanted: Any, **options: Any) -> list[Finished]:
    async def main() -> list[Finished]:
        return [finished async for finished in run_episodes(make_env, agent, wanted, **options)]

    return asyncio.run(main())


def test_every_request_is_answered_once_and_environments_are_reused_and_closed() -> None:
    factory = Factory()
    finished = run(factory, ScriptedAgent(["a", "b"]), requests(100), concurrency=8)
    assert Counter((r.task.id, r.sample) for r, _ in finished) == Counter(
        (r.task.id, r.sample) for r in requests(100)
    )
    for request, trajectory in finished:
        assert (trajectory.task_id, trajectory.sample) == (request.task.id, request.sample)
        assert trajectory.seed == request.seed
    assert len(factory.made) <= 8
    assert sum(env.resets for env in factory.made) == 100
    factory.assert_all_closed()


def test_work_is_started_in_order_lazily_and_never_more_than_the_bound_at_once() -> None:
    taken: list[int] = []
    running = most = 0

    def source() -> Iterator[EpisodeRequest]:
        for number, request in enumerate(requests(30)):
            taken.append(number)
            yield request

    async def act(player: Any, new: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    agent = TokenAgent(lambda player, new: act(player, new))
    finished = run(Factory(), agent, source(), concurrency=5)
    assert len(finished) == 30
    assert most == 5
    assert taken == sorted(taken)
    assert [player.episode.task.id for player in agent.players] == [r.task.id for r in requests(30)]  # type: ignore[union-attr]


def test_memory_stays_flat_because_a_slow_consumer_holds_the_runner_back() -> None:
    started = 0

    def source() -> Iterator[EpisodeRequest]:
        nonlocal started
        for request in requests(5000):
            started += 1
            yield request

    async def main() -> None:
        batches = run_batches(Factory(), ScriptedAgent(["a", "b"]), source(), concurrency=4)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                assert len(batch) <= BATCH
                await asyncio.sleep(0.01)
                assert started <= 2 * BATCH + 2 * 4
                break

    asyncio.run(main())


def test_law_11_one_episodes_exception_never_ends_the_batch() -> None:
    class Poisoned(ScriptedEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            if options["task"].id == "t3":
                raise SystemExit("poison")
            return super().reset(seed=seed, options=options)

        def close(self) -> None:
            super().close()
            raise OSError("cannot close")

    def act(player: Any, new: Any) -> None:
        if player.episode.noise.task == "t5":
            raise ZeroDivisionError("bug")
        if player.episode.noise.task == "t7":
            raise EngineError("down")

    finished = run(lambda: Poisoned([Step(1.0, True)]), TokenAgent(act), requests(80), concurrency=4)
    assert len(finished) == 80
    causes = {request.task.id: trajectory.outcome.cause for request, trajectory in finished}
    assert (causes.pop("t3"), causes.pop("t5"), causes.pop("t7")) == ("env_error", "agent", "infrastructure")
    assert set(causes.values()) == {"terminated"}


@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_law_10_a_failure_is_retried_in_a_fresh_environment_then_recorded(failures: int) -> None:
    made: list[ScriptedEnv] = []

    def make_env() -> ScriptedEnv:
        broken = len(made) < failures
        made.append(ScriptedEnv([Step(error=InfrastructureError("gone")) if broken else Step(1.0, True)]))
        return made[-1]

    ((_, trajectory),) = run(make_env, ScriptedAgent(["a"]), requests(1), concurrency=1, retries=2)
    assert trajectory.attempts == min(failures, 2) + 1
    assert trajectory.attempts == len(made)
    assert all(env.resets == 1 for env in made)
    assert [env.closed for env in made] == [1] * len(made)
    if failures <= 2:
        assert trajectory.outcome == Outcome("completed", "terminated")
    else:
        assert trajectory.outcome == Outcome("failed", "infrastructure", "InfrastructureError: gone")
        assert not trajectory.outcome.scored


def test_law_10_an_agents_own_failure_is_not_retried() -> None:
    ((_, trajectory),) = run(Factory(Step()), ScriptedAgent(["only one"]), requests(1), retries=5)
    assert (trajectory.outcome.cause, trajectory.attempts) == ("agent", 1)
    assert "script ended after 1 replies" in (trajectory.outcome.error or "")


def test_an_environment_is_not_reused_after_a_failure_or_a_timeout() -> None:
    factory = Factory()
    slow = TokenAgent(lambda player, new: asyncio.sleep(60))
    finished = run(factory, slow, requests(3), concurrency=1, limits=Limits(max_seconds=0.02))
    assert {trajectory.outcome.cause for _, trajectory in finished} == {"time"}
    assert [env.resets for env in factory.made] == [1, 1, 1]
    factory.assert_all_closed()


def test_law_10_an_environment_that_hangs_is_tried_again_in_a_fresh_one() -> None:
    factory = Factory(Step(sleep_s=0.05))
    limits = Limits(max_seconds=0.02)
    finished = run(factory, ScriptedAgent(["a"] * 9), requests(2), concurrency=1, limits=limits, retries=1)
    assert [(t.outcome.cause, t.attempts, t.outcome.scored) for _, t in finished] == [
        ("infrastructure", 2, False)
    ] * 2
    assert [env.resets for env in factory.made] == [1, 1, 1, 1]
    factory.assert_all_closed()


def test_an_environment_that_cannot_be_made_is_an_episode_that_failed() -> None:
    def make_env() -> ScriptedEnv:
        raise OSError("no such service")

    finished = run(make_env, ScriptedAgent(["a"]), requests(2), retries=1)
    for request, trajectory in finished:
        assert trajectory.outcome == Outcome("failed", "env_error", "OSError: no such service")
        assert (trajectory.env_id, trajectory.task_id, trajectory.attempts) == (
            "scripted",
            request.task.id,
            2,
        )


def test_an_error_in_the_requests_reaches_the_caller_after_what_had_finished() -> None:
    def source() -> Iterator[EpisodeRequest]:
        yield from requests(3)
        raise KeyError("bad request")

    factory = Factory()
    seen = 0

    async def main() -> None:
        nonlocal seen
        async for _ in run_episodes(factory, ScriptedAgent(["a", "b"]), source(), concurrency=1):
            seen += 1

    with pytest.raises(KeyError, match="bad request"):
        asyncio.run(main())
    assert seen == 3
    factory.assert_all_closed()


@pytest.mark.parametrize("how", ["cancel", "leave"])
def test_law_11_cancelling_or_leaving_closes_every_environment_and_player(how: str) -> None:
    factory = Factory()
    agent = TokenAgent(lambda player, new: asyncio.sleep(60 if player.episode.noise.task != "t0" else 0))

    async def main() -> None:
        async def consume() -> None:
            async with contextlib.aclosing(
                run_episodes(factory, agent, requests(50), concurrency=6)
            ) as episodes:
                async for _ in episodes:
                    if how == "leave":
                        break

        task = asyncio.create_task(consume())
        await asyncio.sleep(0.05)
        if how == "cancel":
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert len(factory.made) == 6
    factory.assert_all_closed()
    assert [player.closed for player in agent.players] == [1] * len(agent.players)


def test_blocking_environments_run_side_by_side() -> None:
    def make_env() -> ScriptedEnv:
        env = ScriptedEnv([Step(1.0, True, sleep_s=0.05)])
        env.blocking = True
        return env

    async def main() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        episodes = [
            f async for f in run_episodes(make_env, ScriptedAgent(["a"]), requests(40), concurrency=40)
        ]
        assert len(episodes) == 40
        return loop.time() - began

    assert asyncio.run(main()) < 0.05 * 40 / 4


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**31))
def test_law_09_concurrency_changes_no_trajectory(one: int, other: int, run_seed: int) -> None:
    def draws(episode: EpisodeStart) -> list[str]:
        return [str(number) for number in noise_generator(episode.noise).integers(1000, size=2)]

    def wanted() -> Iterator[EpisodeRequest]:
        for request in requests(20):
            noise = NoiseKey(run_seed, 0, request.task.id, request.sample)
            yield EpisodeRequest(
                request.task, request.seed, noise, request.sample, request.group, request.env_id
            )

    def play(concurrency: int) -> dict[str, list[Message]]:
        finished = run(Factory(), ScriptedAgent(draws), wanted(), concurrency=concurrency)
        return {t.task_id: [turn.action.message for turn in t.turns] for _, t in finished}

    assert play(one) == play(other)


def test_seeds_depend_on_their_four_parts_only() -> None:
    seeds = {
        episode_seed(r, s, t, k) for r in (0, 1) for s in (0, 1) for t in ("a", "b", "\ud800") for k in (0, 1)
    }
    assert len(seeds) == 24
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert episode_seed(3, 1, "test-4", 2) == episode_seed(3, 1, "test-4", 2)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ValueError, match="concurrency"):
        run(Factory(), ScriptedAgent(["a"]), requests(1), concurrency=0)


def test_memory_is_flat_in_the_number_of_episodes() -> None:
    async def main(count: int) -> None:
        async for _ in run_episodes(Factory(), ScriptedAgent(["a", "b"]), requests(count), concurrency=16):
            pass

    asyncio.run(main(500))
    tracemalloc.start()
    asyncio.run(main(500))
    _, small = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    asyncio.run(main(2500))
    _, large = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert large < 1.5 * small
