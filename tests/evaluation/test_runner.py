"""Evaluation end to end: what is counted is stored, nothing is lost or doubled, whatever interrupts it."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from turngym.agents.errors import BadSpec
from turngym.agents.limits import Limits
from turngym.agents.simple import ScriptedAgent
from turngym.agents.types import Trajectory
from turngym.envs import ListTasks, Message, Task, make, register
from turngym.envs.env import Env
from turngym.envs.errors import InfrastructureError, UnknownEnv, UnknownTask
from turngym.envs.messages import user
from turngym.evaluation import runner
from turngym.evaluation.errors import NotAStore, RunExists, RunMismatch, StoreFull
from turngym.evaluation.progress import EvalProgress
from turngym.evaluation.report import EvalReport, forget_evaluations, stored_reports
from turngym.evaluation.runner import REPORT_NAME, aevaluate, evaluate
from turngym.evaluation.store import RunStore

CALCULATOR = "turngym/Calculator-v0"


class Parrot(Env):
    """Say the number. Task 3 breaks the environment; even numbers are tagged."""

    tasks = ListTasks(
        test=[
            Task(id=f"t{i}", prompt=(user(f"say {i}"),), target=i, tags=("even",) if i % 2 == 0 else ())
            for i in range(8)
        ]
    )
    open_count = 0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        Parrot.open_count += 1

    def step(self, action: Message) -> Any:
        if self.task.target == 3:
            raise InfrastructureError("the aviary burned down")
        won = float(action.text == str(self.task.target))
        return (), won, True, False, {"metrics": {"success": won}}

    def close(self) -> None:
        Parrot.open_count -= 1


register("tests/Parrot-v0", Parrot)
say_zero = ScriptedAgent(["0"], name="zero")
say_right = ScriptedAgent(lambda episode: [str(episode.task.target if episode.task else "")], name="right")


def timeless(trajectory: Trajectory) -> Trajectory:
    turns = tuple(dataclasses.replace(turn, agent_s=0.0, env_s=0.0) for turn in trajectory.turns)
    return dataclasses.replace(trajectory, turns=turns, wall_s=0.0)


def records(folder: Path) -> list[Trajectory]:
    with RunStore(folder, read_only=True) as store:
        return [timeless(stored.trajectory) for stored in store.episodes()]


def test_the_expert_succeeds_and_the_null_policy_does_not() -> None:
    expert, null = (evaluate(CALCULATOR, name, tasks=20, samples=2) for name in ("expert", "null"))
    assert expert.success is not None
    assert null.success is not None
    assert (expert.success.mean, null.success.mean) == (1.0, 0.0)
    assert (expert.episodes, expert.tasks, expert.split, expert.agent) == (40, 20, "test", "expert")


def test_law_10_a_broken_task_is_retried_recorded_and_excluded(tmp_path: Path) -> None:
    report = evaluate("tests/Parrot-v0", say_right, out=tmp_path, retries=1)
    assert report.success is not None
    assert (report.success.mean, report.success.episodes, report.episodes) == (1.0, 7, 8)
    assert (report.failed, report.unscored, report.retried) == ({"infrastructure": 1}, 1, 1)
    assert "1 × InfrastructureError: the aviary burned down" in str(report)
    resumed = evaluate("tests/Parrot-v0", say_right, out=tmp_path, retries=1, resume=True)
    assert (resumed.new_episodes, resumed.errors) == (0, report.errors)
    assert Parrot.open_count == 0
    broken = next(t for t in records(tmp_path) if t.task_id == "t3")
    assert (broken.attempts, broken.outcome.error) == (2, "InfrastructureError: the aviary burned down")


def test_the_report_is_kept_beside_the_store_and_in_it(tmp_path: Path) -> None:
    report = evaluate("tests/Parrot-v0", say_zero, out=tmp_path, tags=["even"], samples=2)
    assert EvalReport.model_validate_json((tmp_path / REPORT_NAME).read_text()) == report
    with RunStore(tmp_path, read_only=True) as store:
        assert EvalReport.model_validate(store.get_meta("report/eval/test/0")) == report
        assert {summary.tags for summary in store.summaries()} == {("even",)}
    assert report.success is not None
    assert (report.success.mean, report.tasks, report.episodes) == (0.25, 4, 8)
    assert report.tags["even"].success == report.success
    assert not list(tmp_path.glob("*.part"))


def test_an_evaluation_may_be_given_by_a_function_and_wrapped() -> None:
    def wrapped(**kwargs: Any) -> Any:
        return gymnasium.wrappers.RecordEpisodeStatistics(make(CALCULATOR, **kwargs))

    report = evaluate(wrapped, "expert", tasks=3, env_kwargs={"least": 3, "most": 3})
    assert report.env_id == CALCULATOR
    assert report.mean_turns == 4.0


def test_limits_reach_the_episodes() -> None:
    report = evaluate(CALCULATOR, "expert", tasks=5, limits=Limits(max_turns=1))
    assert report.truncated == {"turns": 5}
    assert report.success is not None
    assert report.success.mean == 0.0


def test_it_works_where_a_loop_already_runs() -> None:
    async def notebook() -> tuple[EvalReport, EvalReport]:
        return evaluate(CALCULATOR, "expert", tasks=3), await aevaluate(CALCULATOR, "expert", tasks=3)

    first, second = asyncio.run(notebook())
    assert first.success == second.success
    assert inspect.signature(evaluate) == inspect.signature(aevaluate)


def test_law_09_the_seed_decides_everything_and_concurrency_nothing(tmp_path: Path) -> None:
    options = [(0, 1), (0, 7), (1, 7)]
    for number, (seed, concurrency) in enumerate(options):
        evaluate(
            "turngym/GuessNumber-v0",
            "random",
            samples=3,
            seed=seed,
            concurrency=concurrency,
            out=tmp_path / str(number),
        )
    one, other, different = (records(tmp_path / str(number)) for number in range(3))
    assert one == other
    assert one != different
    samples = [[turn.action.message for turn in t.turns] for t in one if t.task_id == one[0].task_id]
    assert len(samples) == 3
    assert samples[0] != samples[1] or samples[1] != samples[2]


def test_resuming_plays_only_what_is_missing(tmp_path: Path) -> None:
    full = evaluate(CALCULATOR, "random", tasks=12, samples=2, out=tmp_path / "full")
    evaluate(CALCULATOR, "random", tasks=12, samples=2, out=tmp_path / "part")
    expected = records(tmp_path / "full")
    with RunStore(tmp_path / "part") as store:
        store._db.execute("DELETE FROM episodes WHERE id % 3 = 0")
    report = evaluate(CALCULATOR, "random", tasks=12, samples=2, out=tmp_path / "part", resume=True)
    assert report.new_episodes == 8
    assert records(tmp_path / "part") == expected
    same = {
        "episodes",
        "tasks",
        "success",
        "reward",
        "mean_turns",
        "completed",
        "truncated",
        "failed",
        "unscored",
    }
    assert report.model_dump(include=same) == full.model_dump(include=same)
    again = evaluate(CALCULATOR, "random", tasks=12, samples=2, out=tmp_path / "part", resume=True)
    assert again.new_episodes == 0


def test_a_folder_is_not_reused_by_accident(tmp_path: Path) -> None:
    evaluate(CALCULATOR, "expert", tasks=2, out=tmp_path)
    with pytest.raises(RunExists, match=r"--resume.*--out"):
        evaluate(CALCULATOR, "expert", tasks=2, out=tmp_path)
    with pytest.raises(RunMismatch, match=r"agent was 'expert' and is 'null' now.*limit was 2 and is 3 now"):
        evaluate(CALCULATOR, "null", tasks=3, out=tmp_path, resume=True)
    assert len(records(tmp_path)) == 2


class Described:
    """Says what it plays like."""

    def __init__(self, **told: Any) -> None:
        self.name = "described"
        self.start = say_right.start
        self.describe = lambda: told

    async def close(self) -> None:
        return None


def test_another_policy_does_not_go_on_with_an_evaluation(tmp_path: Path) -> None:
    first = Described(sampling={"temperature": 1.0}, engine={"weights": "00ff"})
    evaluate("tests/Parrot-v0", first, out=tmp_path)
    with RunStore(tmp_path) as store:
        store._db.execute("DELETE FROM episodes WHERE id % 2 = 0")
    for other, words in (
        (
            Described(sampling={"temperature": 0.5}, engine={"weights": "00ff"}),
            "sampling.temperature was 1.0 and is 0.5",
        ),
        (
            Described(sampling={"temperature": 1.0}, engine={"weights": "ff00"}),
            "engine.weights was '00ff' and is 'ff00'",
        ),
        (Described(sampling={"temperature": 1.0}), "policy.engine was .* and is None"),
    ):
        with pytest.raises(RunMismatch, match=f"of another policy .*{words}"):
            evaluate("tests/Parrot-v0", other, out=tmp_path, resume=True)
    assert evaluate("tests/Parrot-v0", first, out=tmp_path, resume=True).new_episodes == 4


def test_an_evaluation_from_before_policies_were_described_can_be_resumed(tmp_path: Path) -> None:
    first = Described(engine={"weights": "00ff"})
    evaluate("tests/Parrot-v0", first, out=tmp_path)
    with RunStore(tmp_path) as store:
        config = store.get_meta("config/eval/test/0")
        assert config.pop("policy") == {"engine": {"weights": "00ff"}}
        store.set_meta("config/eval/test/0", config)
    assert evaluate("tests/Parrot-v0", first, out=tmp_path, resume=True).new_episodes == 0


@pytest.mark.parametrize("damage", ["[]", "{"])
def test_a_damaged_store_is_a_clear_error(tmp_path: Path, damage: str) -> None:
    evaluate("tests/Parrot-v0", say_right, out=tmp_path)
    with RunStore(tmp_path) as store:
        store._db.execute("UPDATE meta SET value = ?", (damage,))
        with pytest.raises(NotAStore, match="under 'report/eval/test/0'"):
            stored_reports(store)
    with pytest.raises(NotAStore, match=r"under 'config/eval/test/0' .*Restore it from a copy"):
        evaluate("tests/Parrot-v0", say_right, out=tmp_path, resume=True)


def test_evaluations_are_forgotten_with_all_that_was_said_of_them(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for step in (0, 4):
            evaluate("tests/Parrot-v0", say_right, store=store, step=step)
            store.add_metrics("eval/test", step, {"reward": 1.0})
        forget_evaluations(store, 3)
        assert store.phases() == [("eval/test", 0)]
        assert store.meta_keys("") == ["config/eval/test/0", "report/eval/test/0"]
        assert [step for step, _ in store.metrics("eval/test")] == [0]


def test_an_open_store_takes_evaluations_of_several_steps(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        for step in (0, 10):
            evaluate(CALCULATOR, "expert", tasks=2, store=store, step=step, name="during")
        assert store.phases() == [("eval/during", 0), ("eval/during", 10)]
        before, after = (
            [timeless(e.trajectory) for e in store.episodes("eval/during", step)] for step in (0, 10)
        )
    assert before == after  # the same episodes, so that before and after can be compared


@pytest.mark.parametrize(
    ("env", "agent", "options", "error"),
    [
        ("turngym/Calculater-v0", "expert", {}, UnknownEnv),
        (CALCULATOR, "exprt", {"tasks": 1}, BadSpec),
        (CALCULATOR, "expert", {"split": "valid"}, UnknownTask),
        (CALCULATOR, "expert", {"split": "train"}, ValueError),
        (CALCULATOR, "expert", {"tasks": 1, "samples": 0}, ValueError),
        (CALCULATOR, "expert", {"tasks": 1, "out": "x", "store": object()}, ValueError),
        (CALCULATOR, "expert", {"task_ids": ["test-99999999"]}, UnknownTask),
        (CALCULATOR, "expert", {"task_ids": ["test-1", "train-1"]}, UnknownTask),
    ],
)
def test_misuse_is_an_error_before_anything_is_written(
    env: str, agent: str, options: dict[str, Any], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error):
        evaluate(env, agent, **({"out": tmp_path / "run"} | options))
    assert not (tmp_path / "run").exists()


def test_law_13_nothing_is_counted_before_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_PROGRESS_EVERY_S", 0.0)
    seen: list[EvalProgress] = []

    def watch(now: EvalProgress) -> None:
        seen.append(now)
        with RunStore(tmp_path, read_only=True) as reader:
            assert now.done <= sum(1 for _ in reader.summaries())

    evaluate(CALCULATOR, "expert", tasks=300, out=tmp_path, progress=watch)
    assert [now.done for now in seen] == sorted(now.done for now in seen)
    assert (seen[-1].done, seen[-1].total) == (300, 300)
    assert seen[0].success is not None


def test_a_full_disk_stops_it_and_it_can_be_resumed(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store._db.execute("PRAGMA max_page_count = 60")
        with pytest.raises(StoreFull, match="Free some space"):
            evaluate("tests/Parrot-v0", say_right, samples=200, store=store)
        assert Parrot.open_count == 0
        kept = len(store.done("eval/test", 0))
        assert 0 < kept < 1600
        store._db.execute("PRAGMA max_page_count = 100000")
        report = evaluate("tests/Parrot-v0", say_right, samples=200, store=store, resume=True)
    assert (report.episodes, report.new_episodes) == (1600, 1600 - kept)


def test_cancelling_closes_everything_and_it_can_be_resumed(tmp_path: Path) -> None:
    async def main() -> None:
        agent = functools.partial(aevaluate, CALCULATOR, SlowExpert(0.003), tasks=50, out=tmp_path)
        task = asyncio.create_task(agent(concurrency=4))
        await asyncio.sleep(0.15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = await agent(resume=True)  # the lock is free again
        assert report.episodes == 50
        assert report.new_episodes < 50

    asyncio.run(main())


class SlowExpert:
    """The expert, thinking for a moment in each turn."""

    def __init__(self, thinking_s: float) -> None:
        from turngym.agents.specs import make_agent

        self._expert = make_agent("expert", CALCULATOR)
        self._thinking_s = thinking_s
        self.name = "slow"

    def start(self, episode: Any) -> Any:
        player = self._expert.start(episode)
        act = player.act

        async def slow(new: Sequence[Message], *, max_tokens: int | None = None) -> Any:
            await asyncio.sleep(self._thinking_s)
            return await act(new, max_tokens=max_tokens)

        player.act = slow  # type: ignore[method-assign]
        return player

    async def close(self) -> None:
        return None


TASKS, SAMPLES = 60, 3
SCRIPT = """
import sys
from tests.evaluation.test_runner import *
print("started", flush=True)
slow = SlowExpert(float(sys.argv[2]))
evaluate(CALCULATOR, slow, tasks=TASKS, samples=SAMPLES, out=sys.argv[1], concurrency=8, resume=True)
"""


def start(folder: Path, thinking_s: float = 0.002) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", SCRIPT, str(folder), str(thinking_s)]
    return subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Trajectory]:
    folder = tmp_path_factory.mktemp("undisturbed")
    evaluate(CALCULATOR, SlowExpert(0.0), tasks=TASKS, samples=SAMPLES, out=folder)
    return records(folder)


def test_law_13_killed_at_any_moment_and_resumed_the_records_are_those_of_an_undisturbed_run(
    tmp_path: Path, undisturbed: list[Trajectory]
) -> None:
    kills = int(os.environ.get("TURNGYM_TEST_KILLS", "3"))
    rng = random.Random(kills)
    killed = stored = 0
    for _ in range(kills):
        with start(tmp_path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            time.sleep(rng.uniform(0.0, 0.6) / max(1, kills // 3))
            process.send_signal(signal.SIGKILL)
            killed += process.wait() == -signal.SIGKILL
        with RunStore(tmp_path) as store:  # the lock died with its holder
            assert stored <= len(store.done("eval/test", 0))
            stored = len(store.done("eval/test", 0))
    with start(tmp_path) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert killed
    assert records(tmp_path) == undisturbed
    assert json.loads((tmp_path / REPORT_NAME).read_text())["episodes"] == TASKS * SAMPLES


def test_law_13_ctrl_c_ends_cleanly_and_can_be_resumed(tmp_path: Path, undisturbed: list[Trajectory]) -> None:
    with start(
        tmp_path, thinking_s=0.05
    ) as process:  # five seconds in all: it is still at work when Ctrl-C comes
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 1)
    assert "KeyboardInterrupt" in errors
    assert "never awaited" not in errors
    assert not list(tmp_path.glob("*-wal"))  # closed in order
    with start(tmp_path) as process:
        process.communicate(timeout=120)
    assert records(tmp_path) == undisturbed
