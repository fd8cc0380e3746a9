"""The reward curve."""

from __future__ import annotations

import dataclasses
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from turngym.agents.types import Outcome
from turngym.evaluation.errors import EvaluationError
from turngym.evaluation.report import Tally
from turngym.evaluation.store import RunStore

from .test_codec import SMALL
from .test_report import report

pytest.importorskip("matplotlib")

from turngym.evaluation.plots import reward_curve, smoothed


def fill(store: RunStore) -> None:
    for step in range(1, 21):
        wins = step
        store.add_episodes(
            "train",
            step,
            [
                dataclasses.replace(
                    SMALL,
                    sample=i,
                    metrics={"success": float(i < wins)},
                    turns=(dataclasses.replace(SMALL.turns[1], reward=float(i < wins)),),
                )
                for i in range(20)
            ],
        )
    for step, samples in ((0, 0.2), (20, 0.95)):
        tally = Tally(1)
        for i in range(20):
            (summary,) = store.add_episodes(
                "eval/test",
                step,
                [dataclasses.replace(SMALL, task_id=f"t{i}", metrics={"success": float(i < samples * 20)})],
            )
            tally.add(summary)
        found = report(tally).model_copy(update={"step": step})
        store.set_meta(f"report/eval/test/{step}", found.model_dump())


def test_a_curve_is_a_png_of_the_size_of_a_column(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        fill(store)
        path = reward_curve(store, tmp_path / "figures" / "curve.png", title="Calculator, GRPO")
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", data[16:24]) == (1050, 810)


def test_an_environment_without_success_gets_one_panel(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.add_episodes("train", 1, [dataclasses.replace(SMALL, metrics={})])
        store.add_episodes("train", 2, [dataclasses.replace(SMALL, outcome=Outcome("failed", "sandbox"))])
        data = reward_curve(store, tmp_path / "curve.png").read_bytes()
    assert struct.unpack(">II", data[16:24]) == (1050, 480)


def test_nothing_to_draw_says_so(tmp_path: Path) -> None:
    with (
        RunStore(tmp_path) as store,
        pytest.raises(EvaluationError, match="no scored episode of the phase 'train'"),
    ):
        reward_curve(store, tmp_path / "curve.png")


def test_smoothing_has_no_bias_at_its_start() -> None:
    assert smoothed([2.0] * 5) == pytest.approx([2.0] * 5)
    assert smoothed([0.0, 1.0], memory=0.5) == pytest.approx([0.0, 2 / 3])


def test_drawing_touches_no_global_state_of_matplotlib() -> None:
    code = "import sys, turngym.evaluation.plots; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_library_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from turngym.envs.errors import MissingExtra\n"
        "try: import turngym.evaluation.plots\n"
        "except MissingExtra as error: assert 'turngym[train]' in str(error); print('named')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "named"


def test_figures_from_before_they_were_checked_can_be_drawn(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        fill(store)
        odd = store.get_meta("report/eval/test/20")
        odd["success"] |= {"mean": 5.0, "high": 1.0}
        store.set_meta("report/eval/test/20", odd)
        assert reward_curve(store, tmp_path / "curve.png").exists()
