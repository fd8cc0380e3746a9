"""The run store: durable, duplicate-free, one writer at a time, and clear about what went wrong."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.types import Action, Outcome, Trajectory, Turn
from turngym.envs.messages import FunctionSpec, ToolSpec, assistant, user
from turngym.evaluation.errors import (
    DuplicateEpisode,
    NotAStore,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreNotFound,
)
from turngym.evaluation.records import CurvePoint
from turngym.evaluation.store import STORE_NAME, RunStore

from .conftest import trajectories

TOOLS = (ToolSpec(function=FunctionSpec(name="calculate", parameters={"type": "object"})),)


def episode(task: str = "test-0", sample: int = 0, **changes: Any) -> Trajectory:
    base = Trajectory(
        env_id="env",
        task_id=task,
        task_hash="00ff",
        seed=1,
        sample=sample,
        prompt=(user("q"),),
        tools=TOOLS,
        turns=(Turn(Action(assistant("a")), reward=0.5),),
        outcome=Outcome("completed", "terminated"),
        metrics={"success": 1.0},
    )
    return dataclasses.replace(base, **changes)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run" / STORE_NAME


def test_what_is_added_is_read_back_also_by_the_next_process(path: Path) -> None:
    items = [episode("b", 1), episode("a", 0), episode("b", 0, tools=())]
    with RunStore(path) as store:
        summaries = store.add_episodes("train", 3, items, groups=[1, 0, 1], tags=[("x",), (), ("y", "z")])
        assert [(s.task_id, s.group, s.tags) for s in summaries] == [
            ("b", 1, ("x",)),
            ("a", 0, ()),
            ("b", 1, ("y", "z")),
        ]
    with RunStore(path.parent) as store:  # a folder means the store within it
        stored = list(store.episodes())
        assert [s.trajectory for s in stored] == [items[1], items[2], items[0]]
        assert [s.summary for s in stored] == [summaries[1], summaries[2], summaries[0]]
        assert list(store.summaries("train", 3)) == [s.summary for s in stored]
        assert store.done("train", 3) == {("a", 0), ("b", 0), ("b", 1)}
        assert store.phases() == [("train", 3)]


@settings(max_examples=25, deadline=None)
@given(st.lists(trajectories, max_size=5, unique_by=lambda t: (t.task_id, t.sample)), st.integers(1, 3))
def test_any_set_of_trajectories_survives_any_split_into_commits(items: list[Trajectory], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as store:
        for at in range(0, len(items), size):
            store.add_episodes("train", 0, items[at : at + size])
        stored = [episode.trajectory for episode in store.episodes()]
    assert stored == sorted(items, key=lambda t: (t.task_id.encode(), t.sample))


def test_reading_streams_across_pages_steps_and_phases(path: Path) -> None:
    with RunStore(path) as store:
        for step in range(2):
            store.add_episodes(
                "train", step, [episode(f"t{i}", sample) for i in range(300) for sample in range(2)]
            )
        store.add_episodes("eval/test", 0, [episode("t0")])
        assert sum(1 for _ in store.episodes()) == 1201
        assert sum(1 for _ in store.summaries("train")) == 1200
        keys = [s.key for s in store.summaries("train", 1)]
        assert len(set(keys)) == 600
        assert keys == sorted(keys)
        assert next(s.key for s in store.summaries(None, 0)) == ("eval/test", 0, "t0", 0)


def test_law_13_a_duplicate_is_refused_and_its_whole_commit_with_it(path: Path) -> None:
    with RunStore(path) as store:
        store.add_episodes("train", 0, [episode("a")])
        with pytest.raises(DuplicateEpisode, match="resume the run"):
            store.add_episodes("train", 0, [episode("b"), episode("a")])
        assert store.done("train", 0) == {("a", 0)}
        store.add_episodes("train", 1, [episode("a")])
        store.add_episodes("eval/test", 0, [episode("a")])


def test_law_13_episodes_are_committed_when_the_call_returns(path: Path) -> None:
    with RunStore(path) as store:
        store.add_episodes("train", 0, [episode("a")])
        with RunStore(path, read_only=True) as reader:  # a reader needs no lock
            assert reader.done("train", 0) == {("a", 0)}
            with pytest.raises(StoreError, match="readonly"):
                reader.set_meta("key", 1)


@pytest.mark.parametrize(
    ("outcome", "metrics", "reward", "success"),
    [
        (Outcome("completed", "terminated"), {"success": 1.0}, 0.5, 1.0),
        (Outcome("completed", "terminated"), {}, 0.5, None),
        (Outcome("truncated", "tokens"), {}, 0.5, 0.0),
        (Outcome("failed", "agent"), {}, 0.5, 0.0),
        (Outcome("failed", "infrastructure"), {}, None, None),
        (Outcome("failed", "sandbox"), {"success": 1.0}, None, None),
    ],
)
def test_law_10_an_unscored_failure_has_no_reward_which_is_not_a_reward_of_zero(
    path: Path, outcome: Outcome, metrics: dict[str, float], reward: float | None, success: float | None
) -> None:
    with RunStore(path) as store:
        store.add_episodes("train", 0, [episode(outcome=outcome, metrics=metrics)])
        (summary,) = store.summaries()
    assert (summary.reward, summary.success, summary.scored) == (reward, success, reward is not None)


def test_law_10_a_curve_is_over_scored_episodes_only(path: Path) -> None:
    failed = Outcome("failed", "infrastructure", "gone")
    with RunStore(path) as store:
        store.add_episodes(
            "train", 1, [episode("a"), episode("b", metrics={"success": 0.0}), episode("c", outcome=failed)]
        )
        store.add_episodes(
            "train", 2, [episode("a", metrics={}), episode("b", outcome=Outcome("truncated", "turns"))]
        )
        store.add_episodes("train", 3, [episode("c", outcome=failed)])
        assert store.curve("train") == [
            CurvePoint(1, 3, 2, 0.5, 0.5),
            CurvePoint(2, 2, 2, 0.5, None),
            CurvePoint(3, 1, 0, None, None),
        ]


def test_later_steps_can_be_forgotten(path: Path) -> None:
    with RunStore(path) as store:
        for step in range(4):
            store.add_episodes("train", step, [episode("a"), episode("b")])
            store.add_metrics("train", step, {"kl": step / 10})
        assert store.delete_episodes("train", 2) == 4
        assert store.delete_metrics("train", 3) == 1
        assert store.phases() == [("train", 0), ("train", 1)]
        assert [step for step, _ in store.metrics("train")] == [0, 1, 2]


def test_metrics_and_meta_are_kept_and_replaced(path: Path) -> None:
    with RunStore(path) as store:
        store.add_metrics("train", 2, {"kl": 0.5, "loss": math.inf})
        store.add_metrics("train", 1, {"kl": math.nan})
        store.add_metrics("train", 2, {"kl": 0.25})
        (first, second) = store.metrics("train")
        assert first[0] == 1
        assert math.isnan(first[1]["kl"])
        assert second == (2, {"kl": 0.25, "loss": math.inf})
        assert store.metrics("eval/test") == []
        assert store.get_meta("config") is None
        store.set_meta("config", {"a": [1]})
        store.set_meta("config", {"a": [2], "text": "\ud800\u2028"})
        assert store.get_meta("config") == {"a": [2], "text": "\ud800\u2028"}


def test_tools_are_stored_once(path: Path) -> None:
    twin = (ToolSpec(function=FunctionSpec(name="calculate", parameters={"type": "object"})),)
    with RunStore(path) as store:
        store.add_episodes("train", 0, [episode(f"t{i}", tools=(TOOLS, twin, ())[i % 3]) for i in range(9)])
        other = (ToolSpec(function=FunctionSpec(name="other", parameters={})),)
        with pytest.raises(DuplicateEpisode):
            store.add_episodes("train", 0, [episode("new", tools=other), episode("t0", tools=other)])
        store.add_episodes("train", 1, [episode("new", tools=other)])
        assert [s.trajectory.tools for s in store.episodes("train", 1)] == [other]
    assert sqlite3.connect(path).execute("SELECT COUNT(*) FROM toolsets").fetchone() == (3,)


def test_a_full_disk_is_explained_and_loses_nothing(path: Path) -> None:
    with RunStore(path) as store:
        store.add_episodes("train", 0, [episode("a")])
        (pages,) = store._db.execute("PRAGMA page_count").fetchone()
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        big = episode("b", prompt=(user("x" * 100_000),))
        with pytest.raises(StoreFull, match=r"Free some space .* every episode that was counted is stored"):
            store.add_episodes("train", 0, [big])
        assert store.done("train", 0) == {("a", 0)}
        store._db.execute("PRAGMA max_page_count = 100000")
        store.add_episodes("train", 0, [big])
        assert store.done("train", 0) == {("a", 0), ("b", 0)}


def test_a_file_size_limit_is_a_full_disk_too(path: Path) -> None:
    code = f"""
import resource, signal
from tests.evaluation.test_store import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with RunStore({str(path)!r}) as store:
    store.add_episodes("train", 0, [episode("a")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
    try:
        store.add_episodes("train", 0, [episode("b", prompt=(user("x" * 900_000),))])
    except StoreFull as error:
        print("explained")
"""
    assert python(code).stdout.strip() == "explained"
    with RunStore(path) as store:
        assert store.done("train", 0) == {("a", 0)}


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to look at" * 30, b"SQLite format 3\0garbage" * 99]
)
def test_a_file_that_is_no_store_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(NotAStore, match="choose another path"):
        RunStore(path)
    assert path.read_bytes() == content


def test_a_foreign_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE things (x)")
    db.close()
    with pytest.raises(NotAStore, match="not a run store"):
        RunStore(path)
    assert sqlite3.connect(path).execute("SELECT name FROM sqlite_master").fetchall() == [("things",)]


def test_a_newer_format_says_to_update(path: Path) -> None:
    RunStore(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(NotAStore, match="update turngym"):
        RunStore(path)


def test_a_damaged_episode_is_named(path: Path) -> None:
    with RunStore(path) as store:
        store.add_episodes("train", 0, [episode("a")])
        store._db.execute("UPDATE episodes SET trajectory = substr(trajectory, 1, 40)")
        with pytest.raises(NotAStore, match=r"'a', 0\) is damaged"):
            list(store.episodes())


def test_the_error_of_a_failed_episode_is_in_its_summary(path: Path) -> None:
    failed = Outcome("failed", "infrastructure", "OSError: gone \ud800")
    with RunStore(path) as store:
        added = store.add_episodes("train", 0, [episode("a"), episode("b", outcome=failed)])
        assert [summary.error for summary in added] == [None, "OSError: gone \ud800"]
        assert list(store.summaries()) == added
        assert [stored.summary for stored in store.episodes()] == added
        store._db.execute("UPDATE episodes SET trajectory = substr(trajectory, 1, 40)")
        with pytest.raises(NotAStore, match=r"the episode \('train', 0, 'b', 0\) is damaged .*Restore it"):
            list(store.summaries())


def test_a_damaged_value_is_named_with_what_to_do(path: Path) -> None:
    with RunStore(path) as store:
        for damage in ('{"seed": 0', "", b"\xff\xfe"):
            store._db.execute("INSERT OR REPLACE INTO meta VALUES ('config', ?)", (damage,))
            with pytest.raises(
                NotAStore, match=r"is damaged: what it keeps under 'config' .*Restore it from a copy"
            ):
                store.get_meta("config")
        store.add_episodes("train", 0, [episode("a")])
        store._db.execute("UPDATE episodes SET tags = '[\"x'")
        with pytest.raises(NotAStore, match=r"'a', 0\) is damaged"):
            list(store.summaries())


def test_values_can_be_listed_and_forgotten(path: Path) -> None:
    with RunStore(path) as store:
        for key in ("report/b", "report/a", "config/a"):
            store.set_meta(key, 1)
        assert store.meta_keys("report/") == ["report/a", "report/b"]
        store.delete_meta("report/a")
        store.delete_meta("no such name")
        assert store.meta_keys("") == ["config/a", "report/b"]


def test_the_last_step_of_a_phase(path: Path) -> None:
    with RunStore(path) as store:
        assert store.last_step("train") is None
        for step in (3, 11, 2):
            store.add_metrics("train", step, {"kl": 0.0})
        store.add_metrics("sft", 40, {"loss": 0.0})
        assert store.last_step("train") == 11


def test_a_store_that_is_not_there(path: Path) -> None:
    with pytest.raises(StoreNotFound):
        RunStore(path, create=False)
    with pytest.raises(StoreNotFound):
        RunStore(path, read_only=True)
    assert not path.parent.exists()


def test_a_folder_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match=r"cannot use .*file/run.sqlite"):
        RunStore(tmp_path / "file" / STORE_NAME)


def test_names_that_are_not_unicode_are_refused(path: Path) -> None:
    with RunStore(path) as store, pytest.raises(StoreError, match="not valid Unicode"):
        store.add_episodes("train", 0, [episode("\ud800")])


def test_full_sync_is_an_option(path: Path) -> None:
    with RunStore(path, full_sync=True) as store:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    with RunStore(path) as store:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (1,)


def test_two_writers_are_one_too_many(path: Path) -> None:
    with RunStore(path):
        with pytest.raises(StoreLocked, match=f"process {os.getpid()} is writing this run"):
            RunStore(path)
        assert (
            python(f"from turngym.evaluation.store import *; RunStore({str(path)!r})", check=False).returncode
            == 1
        )
    RunStore(path).close()


def test_a_lock_dies_with_its_holder_even_if_a_forked_child_lives_on(path: Path) -> None:
    code = f"""
import os, time
from turngym.evaluation.store import RunStore
store = RunStore({str(path)!r})
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, b"x")
    time.sleep(60)
os.read(reader, 1)
print(child, flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            with pytest.raises(StoreLocked, match=f"process {process.pid}"):
                RunStore(path)
            process.kill()
            process.wait()
            RunStore(path).close()
        finally:
            os.kill(child, signal.SIGKILL)


def test_law_13_what_a_killed_process_committed_is_there_also_for_a_reader(path: Path) -> None:
    code = f"""
import os, signal
from tests.evaluation.test_store import *
store = RunStore({str(path)!r})
store.add_episodes("train", 0, [episode("a")])
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert python(code, check=False).returncode == -signal.SIGKILL
    with RunStore(path, read_only=True) as reader:
        assert reader.done("train", 0) == {("a", 0)}
    with RunStore(path) as store:
        assert store.done("train", 0) == {("a", 0)}


def python(code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[2]
    return subprocess.run([sys.executable, "-c", code], cwd=root, text=True, capture_output=True, check=check)
