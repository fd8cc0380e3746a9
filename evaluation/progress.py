"""How far an evaluation is: figures for a callback, and a progress bar when standard error is a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

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


@contextlib.contextmanager
def progress_bar(description: str) -> Iterator[ProgressCallback | None]:
    """A bar on standard error while the block runs; None (no bar) where that is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
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
