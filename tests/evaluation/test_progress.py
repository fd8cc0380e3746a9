"""The progress bar: on a terminal only."""

from __future__ import annotations

import io
import sys

import pytest

from turngym.evaluation.metrics import Interval
from turngym.evaluation.progress import EvalProgress, progress_bar

NOW = EvalProgress(
    done=5,
    total=10,
    success=Interval(mean=0.5, low=0.25, high=0.75, episodes=5, tasks=5),
    turns_per_s=1234.0,
    failed=2,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_with_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("calculator") as show:
        assert show is not None
        show(NOW)
    text = terminal.getvalue()
    for part in ("calculator", "5/10", "success 0.500", "1,234 turns/s", "2 failed"):
        assert part in text


def test_anything_else_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with progress_bar("calculator") as show:
        assert show is None
    assert plain.getvalue() == ""
