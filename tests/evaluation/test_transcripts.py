"""Transcripts that a person reads."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from pathlib import Path

from hypothesis import given, settings

from turngym.agents.types import Action, Outcome, Tokens, Trajectory, Turn
from turngym.envs.messages import FunctionCall, ToolCall, assistant, tool_result
from turngym.evaluation.store import RunStore
from turngym.evaluation.transcripts import transcript, write_transcripts

from .conftest import trajectories
from .test_codec import SMALL

EXPECTED = """\
turngym/Calculator-v0 · task test-0 · sample 0 · seed 1

     user  1 − 1?
── turn 1 · 1 tokens ──────────────────────────────
assistant  → calculate({"a": 1, "op": "−"})
calculate  0
── turn 2 · 2 tokens ──────────────────────────────
assistant  0
   reward  1 (correct 1)
────────────────────────────────────────
completed (terminated) · reward 1 · success 1 · 2 turns · 3 tokens · 0.00 s
"""


def test_an_episode_as_text() -> None:
    assert transcript(SMALL) == EXPECTED


def test_what_goes_wrong_is_shown_and_escapes_do_nothing() -> None:
    call = ToolCall(id="c", function=FunctionCall(name="", arguments="{"), parse_error="cut off")
    cut = Turn(Action(assistant("\x1b[2Jred\nblue\u202e", call), Tokens((1,), (2,), (-1.0,)), "length"))
    episode = dataclasses.replace(
        SMALL,
        turns=(cut, Turn(Action(assistant(None)), (tool_result(call, "no"),))),
        outcome=Outcome("failed", "infrastructure", "EngineError: gone\x07"),
        attempts=3,
    )
    text = transcript(episode)
    assert "\\x1b[2Jred\n           blue\\u202e\n" in text
    assert "→ ?({)\n             malformed: cut off" in text
    assert "cut off by the token limit" in text
    assert "     tool  no" in text
    assert "(nothing)" in text
    assert "failed (infrastructure) · EngineError: gone\\x07 · not scored" in text
    assert "3 attempts" in text


@settings(max_examples=50, deadline=None)
@given(trajectories)
def test_any_episode_can_be_shown_on_a_terminal(trajectory: Trajectory) -> None:
    text = transcript(trajectory)
    acting = {c for c in text if unicodedata.category(c) in ("Cc", "Cs") or c in "\u2028\u2029\u202d\u202e"}
    assert acting <= {"\n", "\t"}


def test_every_episode_has_a_file_of_its_own_whatever_its_task_is_called(tmp_path: Path) -> None:
    names = ["train-1", "問1", "答1", "a/b", "a-b", "x" * 280]
    with RunStore(tmp_path) as store:
        store.add_episodes("eval/test", 7, [dataclasses.replace(SMALL, task_id=name) for name in names])
        paths = write_transcripts(store, tmp_path / "texts", step=7, count=10)
    assert len(set(paths)) == len(names)
    assert {path.name for path in paths} >= {"eval-test-7-train-1-0.txt", "eval-test-7-a-b-0.txt"}
    assert sum("x" * 280 in path.read_text(encoding="utf-8") for path in paths) == 1


def test_files(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        episodes = [dataclasses.replace(SMALL, task_id=f"a/../{i}") for i in range(3)]
        store.add_episodes("eval/test", 0, episodes)
        paths = write_transcripts(store, tmp_path / "texts", phase="eval/test", count=2)
    assert [re.sub("[0-9a-f]{8}", "HASH", path.name) for path in paths] == [
        "eval-test-0-a-..-0-0-HASH.txt",
        "eval-test-0-a-..-1-0-HASH.txt",
    ]
    assert all(path.parent == tmp_path / "texts" for path in paths)
    assert paths[0].read_text(encoding="utf-8") == transcript(episodes[0])
