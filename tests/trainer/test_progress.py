from __future__ import annotations

import io

import pytest
from rich.console import Console

from turngym.trainer.progress import LiveProgress, PlainProgress, make_progress

FIGURES = {"reward": 0.25, "success": 0.5, "entropy": 1.25, "sampled_tokens_per_s": 12_345.6, "other": 3.0}


def test_a_log_gets_the_first_and_the_last_step_and_one_a_second_between():
    stream = io.StringIO()
    progress = PlainProgress(stream, every_s=3600.0)
    for part in ("warm start", "train"):
        progress.begin(part, 100)
        for step in range(1, 101):
            progress.step(step, FIGURES)
    shown = [line.split("  ")[0] for line in stream.getvalue().splitlines()]
    assert shown == ["warm start 1/100", "warm start 100/100", "train 1/100", "train 100/100"]
    every = io.StringIO()
    progress = PlainProgress(every, every_s=0.0)
    progress.begin("train", 100)
    for step in range(1, 101):
        progress.step(step, FIGURES)
    assert len(every.getvalue().splitlines()) == 100


def test_a_line_of_the_log():
    stream = io.StringIO()
    with make_progress(stream) as progress:
        assert isinstance(progress, PlainProgress)
        progress.say("hello")
        progress.begin("train", 4, done=2)
        progress.step(3, FIGURES)
    hello, line = stream.getvalue().splitlines()
    assert hello == "hello"
    assert line.startswith(
        "train 3/4  reward 0.250  success 50.0%  entropy 1.250  tokens/s 12,346  0:00 left"
    )


def test_a_terminal_gets_a_display_with_the_last_steps():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    progress = make_progress(console.file)  # a StringIO is no terminal
    assert isinstance(progress, PlainProgress)
    with LiveProgress(console) as live:
        live.say("hello")
        live.say("OSError: [/red] gone")
        live.begin("train", 100)
        for step in range(1, 31):
            live.step(step, FIGURES)
    text = console.file.getvalue()
    last = text[text.rindex("tokens/s") :]
    assert "hello" in text
    assert "OSError: [/red] gone" in text, "no markup"
    assert "train 30/100" in last
    assert "0:00 left" in last
    assert last.count("50.0%") == 12


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ClosedTerminal(Terminal):
    def write(self, text):
        raise OSError(5, "Input/output error")

    def flush(self):
        self.write("")


@pytest.fixture(autouse=True)
def capable_terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_capable_terminal_gets_the_display():
    assert isinstance(make_progress(Terminal()), LiveProgress)


@pytest.mark.parametrize(
    ("name", "value", "stream"),
    [
        ("TERM", "dumb", Terminal),
        ("TERM", "unknown", Terminal),
        ("NO_COLOR", "1", Terminal),
        ("FORCE_COLOR", "1", io.StringIO),
        ("TTY_COMPATIBLE", "1", io.StringIO),
    ],
)
def test_whoever_cannot_or_would_not_draw_gets_lines_without_a_code(monkeypatch, name, value, stream):
    monkeypatch.setenv(name, value)
    screen = stream()
    with make_progress(screen) as progress:
        assert isinstance(progress, PlainProgress)
        progress.begin("train", 2)
        progress.step(1, FIGURES)
        progress.say("hello")
    assert "\x1b" not in screen.getvalue()
    assert "train 1/2" in screen.getvalue()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_run_goes_on_when_its_terminal_is_closed(monkeypatch, term):
    monkeypatch.setenv("TERM", term)
    with make_progress(ClosedTerminal()) as progress:
        progress.begin("train", 2)
        progress.say("hello")
        progress.step(2, FIGURES)


def test_what_is_said_is_text_and_stays_in_one_line():
    console = Console(file=io.StringIO(), force_terminal=True, width=40)
    with LiveProgress(console) as live:
        live.say("[/x] " + "word " * 20)
    assert "[/x] " + "word " * 19 in console.file.getvalue()
