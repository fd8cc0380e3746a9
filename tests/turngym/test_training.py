"""What `turngym train` says at the end names only what is there."""

from __future__ import annotations

from pathlib import Path

from turngym.cli.training import _next_steps
from turngym.trainer.report import TrainReport


def test_what_to_try_next_names_what_is_there(tmp_path: Path):
    report = TrainReport(tmp_path, 3, 1.0, None, None)
    said = _next_steps(report)
    assert "look at" not in said
    assert "tensorboard" not in said
    assert f"--agent hf:{tmp_path / 'final'}" in said
    (tmp_path / "transcripts").mkdir()
    assert f"look at   {tmp_path / 'transcripts'}\n" in _next_steps(report)
    (tmp_path / "curve.png").touch()
    (tmp_path / "tensorboard").mkdir()
    said = _next_steps(report)
    assert f"look at   {tmp_path / 'curve.png'} and {tmp_path / 'transcripts'}\n" in said
    assert f"tensorboard --logdir {tmp_path / 'tensorboard'}" in said
