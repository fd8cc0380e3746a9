"""What a person sees while a run goes on: a live display on a terminal, lines of figures elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from time import perf_counter
from types import TracebackType
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from turngym.evaluation.progress import can_be_drawn_on, forgiving

SHOWN = (
    ("reward", "reward", "{:.3f}"),
    ("success", "success", "{:.1%}"),
    ("loss", "loss", "{:.3f}"),
    ("entropy", "entropy", "{:.3f}"),
    ("approx_kl", "KL", "{:.4f}"),
    ("turns", "turns", "{:.1f}"),
    ("sampled_tokens_per_s", "tokens/s", "{:,.0f}"),
    ("explained_variance", "explained", "{:.2f}"),
)
"""Figure, its heading, and its format; those that a step has are shown."""


class Progress(Protocol):
    """Is told how a run goes. A context around the whole run."""

    def say(self, text: str) -> None:
        """Something happened that a person wants to know."""
        ...

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """A part of the run begins: so many steps, of which some are done already."""
        ...

    def step(self, number: int, figures: Mapping[str, float]) -> None:
        """A step of the present part is done."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def make_progress(stream: TextIO | None = None) -> Progress:
    """The live display if the stream (standard error) is a terminal that can show it, lines of text otherwise.

    Either drops what cannot be written: a run goes on when its terminal is closed.
    """
    stream = stream or sys.stderr
    drawn, safe = can_be_drawn_on(stream), forgiving(stream)
    return LiveProgress(Console(file=safe)) if drawn else PlainProgress(safe)


class SilentProgress:
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """Nothing."""

    def step(self, number: int, figures: Mapping[str, float]) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Nothing."""


class PlainProgress(SilentProgress):
    """For logs: a line for the first and the last step of a part, and for at most one step a second between."""

    def __init__(self, stream: TextIO, *, every_s: float = 1.0) -> None:
        self._stream = stream
        self._every_s = every_s
        self._clock = _Clock()
        self._said_at: float | None = None

    def say(self, text: str) -> None:
        """One line."""
        print(text, file=self._stream, flush=True)

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """Start the clock of a part."""
        self._clock = _Clock(what, total, done)
        self._said_at = None

    def step(self, number: int, figures: Mapping[str, float]) -> None:
        """A line of figures, if it is due."""
        self._clock.done = number
        now = perf_counter()
        if self._said_at is not None and number < self._clock.total and now - self._said_at < self._every_s:
            return
        self._said_at = now
        figures_text = "  ".join(f"{heading} {text}" for heading, text in _shown(figures))
        self.say(
            f"{self._clock.what} {number}/{self._clock.total}  {figures_text}  {self._clock.left()} left"
        )


class LiveProgress(SilentProgress):
    """A bar, and a table of the last steps, redrawn in place."""

    _ROWS = 12

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = _Clock()
        self._steps: list[tuple[int, Mapping[str, float]]] = []
        self._live = Live(console=console, refresh_per_second=4, get_renderable=self._render)

    def say(self, text: str) -> None:
        """One line above the display, which stays."""
        self._console.print(
            text, highlight=False, markup=False, soft_wrap=True
        )  # it may quote an error, brackets and all

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """A new bar and an empty table."""
        self._clock = _Clock(what, total, done)
        self._steps = []

    def step(self, number: int, figures: Mapping[str, float]) -> None:
        """Move the bar and add a row."""
        self._clock.done = number
        self._steps = [*self._steps, (number, dict(figures))][-self._ROWS :]

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        clock = self._clock
        if not clock.total:
            return Text("")
        bar = Table.grid(padding=(0, 1))
        bar.add_row(
            f"{clock.what} {clock.done}/{clock.total}",
            ProgressBar(total=clock.total, completed=clock.done, width=40),
            f"{clock.left()} left",
        )
        if not self._steps:
            return bar
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        table.add_column("step", justify="right")
        for heading, _ in _shown(self._steps[-1][1]):
            table.add_column(heading, justify="right")
        for number, figures in self._steps:
            table.add_row(str(number), *(text for _, text in _shown(figures)))
        return Group(table, bar)


def _shown(figures: Mapping[str, float]) -> list[tuple[str, str]]:
    return [(heading, form.format(figures[name])) for name, heading, form in SHOWN if name in figures]


class _Clock:
    """How far a part of the run is, and how long the rest will take at the pace so far."""

    def __init__(self, what: str = "", total: int = 0, done: int = 0) -> None:
        self.what = what
        self.total = total
        self.done = done
        self._done_before = done
        self._started = perf_counter()

    def left(self) -> str:
        steps = self.done - self._done_before
        if not steps:
            return "?"
        seconds = round((perf_counter() - self._started) / steps * (self.total - self.done))
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
