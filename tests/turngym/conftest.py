from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from turngym.cli import app, console


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command line was answered."""

    code: int
    out: str
    err: str


Ask = Callable[..., Answer]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The command in this process, which is faster; only what belongs to a process of its own is left out."""
    monkeypatch.setattr(console, "_end_like_ctrl_c", lambda *_: None)
    monkeypatch.setattr(console, "_make_streams_safe", lambda: None)

    def command(*argv: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["turngym", *argv])
        capsys.readouterr()
        code = console.run(app)
        out, err = capsys.readouterr()
        return Answer(code, out, err)

    return command
