"""The tally and the report made of it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.evaluation.records import EpisodeSummary
from turngym.evaluation.report import EvalReport, Tally


def summary(task: str, sample: int = 0, **changes: Any) -> EpisodeSummary:
    values: dict[str, Any] = {
        "phase": "eval/test",
        "step": 0,
        "task_id": task,
        "sample": sample,
        "group": 0,
        "tags": (),
        "kind": "completed",
        "cause": "terminated",
        "attempts": 1,
        "reward": 1.0,
        "success": 1.0,
        "turns": 3,
        "action_tokens": 0,
        "wall_s": 0.1,
    }
    return EpisodeSummary(**(values | changes))


def report(tally: Tally) -> EvalReport:
    return tally.report(
        env_id="turngym/Calculator-v0",
        agent="expert",
        split="test",
        step=0,
        seed=0,
        new_episodes=tally.episodes,
        new_turns=tally.turns,
        wall_s=2.0,
        folder="runs/x",
    )


FAILED: dict[str, Any] = {
    "kind": "failed",
    "cause": "infrastructure",
    "reward": None,
    "success": None,
    "attempts": 3,
}


def test_law_10_failures_are_counted_and_printed_but_in_no_mean() -> None:
    tally = Tally(samples=1)
    for episode in (
        summary("a", action_tokens=30),
        summary("b", reward=0.0, success=0.0, turns=5, action_tokens=10),
        summary("c", **FAILED, turns=100),
        summary("d", kind="truncated", cause="tokens", reward=0.0, success=0.0, turns=1, attempts=2),
        summary("e", kind="failed", cause="agent", reward=0.0, success=0.0),
    ):
        tally.add(episode)
    found = report(tally)
    assert found.success is not None
    assert found.reward is not None
    assert (found.success.mean, found.success.episodes, found.reward.mean) == (0.25, 4, 0.25)
    assert (found.episodes, found.unscored, found.retried, found.completed) == (5, 1, 2, 2)
    assert found.truncated == {"tokens": 1}
    assert found.failed == {"infrastructure": 1, "agent": 1}
    assert (found.mean_turns, found.mean_action_tokens) == (3.0, 10.0)
    text = str(found)
    assert "success   0.250 [" in text
    assert "2 completed, 1 truncated (tokens 1), 2 failed (agent 1, infrastructure 1)" in text
    assert "1 episodes failed through no fault of the agent: in no mean" in text
    assert EvalReport.model_validate_json(found.model_dump_json()) == found
    json.loads(found.model_dump_json())


def test_the_most_common_errors_are_named_and_the_others_counted() -> None:
    tally = Tally(samples=1)
    errors = (
        ["OSError: no route"] * 3 + ["ValueError: b"] * 2 + ["A: a", "Z: z\x1b[31m\ud800", "Y: " + "y" * 999]
    )
    for number, error in enumerate([*errors, None]):
        tally.add(summary(f"t{number}", **FAILED, error=error))
    tally.add(summary("cut", kind="truncated", cause="turns", error="not of a failure"))
    found = report(tally)
    assert found.errors == {"OSError: no route": 3, "ValueError: b": 2, "A: a": 1}
    lines = str(found).splitlines()
    at = lines.index("  errors    3 × OSError: no route")
    assert lines[at + 1 : at + 4] == [
        "            2 × ValueError: b",
        "            1 × A: a",
        "            3 × other errors",
    ]
    assert EvalReport.model_validate_json(found.model_dump_json()) == found


def test_an_error_can_be_printed_whatever_it_holds_and_however_many_there_are() -> None:
    tally = Tally(samples=1)
    tally.add(summary("odd", **FAILED, error="Z: z\x1b[31m\ud800" + "y" * 999))
    (text,) = report(tally).errors
    assert text.startswith(r"Z: z\x1b[31m\ud800yyy")
    assert len(text) <= 201
    report(tally).model_dump_json()
    for number in range(5000):
        tally.add(summary(f"t{number}", **FAILED, error=f"OSError: port {number}"))
    assert len(tally._errors) <= 256
    assert "4998 × other errors" in str(report(tally))


def test_a_report_from_before_errors_were_kept_can_be_read() -> None:
    tally = Tally(samples=1)
    tally.add(summary("a", **FAILED))
    old = {key: value for key, value in report(tally).model_dump().items() if key != "errors"}
    assert "errors" not in str(EvalReport.model_validate(old))


def test_nothing_scored_is_no_zero() -> None:
    tally = Tally(samples=1)
    tally.add(summary("a", **FAILED))
    found = report(tally)
    assert (found.success, found.reward, found.mean_turns) == (None, None, None)
    assert "none: nothing was scored" in str(found)


def test_an_environment_that_reports_no_success_has_none() -> None:
    tally = Tally(samples=1)
    tally.add(summary("a", kind="truncated", cause="turns", success=0.0))
    assert tally.success() is not None  # so far it looks like failure to succeed
    tally.add(summary("b", success=None))
    assert tally.success() is None
    assert "not reported" in str(report(tally))


def test_tags_have_figures_of_their_own() -> None:
    tally = Tally(samples=1)
    tally.add(summary("a", tags=("easy",)))
    tally.add(summary("b", tags=("hard", "long"), success=0.0, reward=0.0))
    tally.add(summary("c", tags=("hard",)))
    tags = report(tally).tags
    assert {name: part.success.mean for name, part in tags.items() if part.success} == {
        "easy": 1,
        "hard": 0.5,
        "long": 0,
    }
    assert "hard      success 0.500" in str(report(tally))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=3, max_size=3), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_the_order_of_episodes_changes_nothing(
    outcomes: list[list[float | None]], rng: random.Random
) -> None:
    episodes = [
        summary(f"t{t}", s, **(FAILED if value is None else {"reward": value, "success": value}))
        for t, values in enumerate(outcomes)
        for s, value in enumerate(values)
    ]
    reports = []
    for _ in range(2):
        tally = Tally(samples=3)
        for episode in episodes:
            tally.add(episode)
        assert not tally._open  # nothing is kept of a task whose samples are in
        reports.append(report(tally))
        rng.shuffle(episodes)
    assert reports[0] == reports[1]
    scored = [v for values in outcomes for v in values if v is not None]
    if scored:
        assert reports[0].reward is not None
        assert reports[0].reward.mean == pytest.approx(sum(scored) / len(scored))
