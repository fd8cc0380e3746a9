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
    monkeypatch.delenv("NO_COLOR", raising=False)
    with progress_bar("calculator [/x]") as show:
        assert show is not None
        show(NOW)
    text = terminal.getvalue()
    for part in ("calculator [/x]", "5/10", "success 0.500", "1,234 turns/s", "2 failed"):
        assert part in text


def test_anything_else_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stderr", plain)
    with progress_bar("calculator") as show:
        assert show is None
    assert plain.getvalue() == ""


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("NO_COLOR", "1")])
def test_a_terminal_that_cannot_or_should_not_be_drawn_on_gets_none(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    with progress_bar("calculator") as show:
        assert show is None
    assert terminal.getvalue() == ""


def test_an_evaluation_goes_on_when_its_terminal_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(Terminal):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Closed())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with progress_bar("calculator") as show:
        assert show is not None
        show(NOW)
