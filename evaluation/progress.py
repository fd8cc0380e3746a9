"""How far an evaluation is: figures for a callback, and a progress bar when standard error is a terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from turngym.evaluation.metrics import Interval


@dataclass(frozen=True, slots=True)
class EvalProgress:
    """Where an evaluation stands. Everything counted here is stored."""

    done: int
    """Episodes that are in, those of earlier runs included."""
    total: int
    """Episodes that there will be."""
    success: Interval | None
    """Success so far; None where the environment reports none."""
    turns_per_s: float
    """Turns played per second, in this call."""
    failed: int
    """Failures through no fault of the agent."""


ProgressCallback = Callable[[EvalProgress], None]
"""Told a few times a second, and once at the end."""


def can_be_drawn_on(stream: TextIO) -> bool:
    """True for a terminal that understands control codes, unless the person does without (NO_COLOR).

    What a stream is decides, not what FORCE_COLOR or a CI service asks for: those want colours in a log, and no
    bar that is drawn a thousand times.
    """
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return stream.isatty() and not is_dumb and not os.environ.get("NO_COLOR")


def forgiving(stream: TextIO) -> TextIO:
    """The stream, except that what cannot be written is dropped: nothing ends because its terminal was closed."""
    return cast(TextIO, _Forgiving(stream))


class _Forgiving:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def progress_bar(description: str) -> Iterator[ProgressCallback | None]:
    """A bar on standard error while the block runs; None (no bar) where none can be drawn."""
    if not can_be_drawn_on(sys.stderr):
        yield None
        return
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}", markup=False),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(file=forgiving(sys.stderr)),
    )
    with bar:
        line = bar.add_task(description, total=None, figures="")

        def show(now: EvalProgress) -> None:
            parts = [] if now.success is None else [f"success {now.success}"]
            parts.append(f"{now.turns_per_s:,.0f} turns/s")
            if now.failed:
                parts.append(f"{now.failed} failed")
            bar.update(line, completed=now.done, total=now.total, figures=" · ".join(parts))

        yield show
