"""Manners that all commands share: one-line errors that say what to do, exit codes, tables and JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from turngym.evaluation.errors import NotAStore, StoreError, StoreLocked, StoreNotFound

# NO_COLOR means colours; but rich would leave bold and dim, which are codes too.
_COLOURS: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
out = Console(color_system=_COLOURS)
err = Console(stderr=True, color_system=_COLOURS)


class Misuse(ValueError):
    """Something was asked for that cannot be done; the message says what, and what to write instead."""


@dataclass(slots=True)
class _State:
    debug: bool = False
    hung_up: bool = False


state = _State()


def say(text: str, console: Console = out) -> None:
    """Print a text as it is: no markup, no colours, and no line broken, so that a path or a command can be copied."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def run(app: typer.Typer) -> int:
    """Run a command line and return its exit code; an error becomes a line on stderr, a traceback only with
    `--debug`."""
    state.debug = "--debug" in sys.argv
    # `--debug` may stand anywhere, since people add it to the end of the line that just failed.
    args = [a for a in sys.argv[1:] if a != "--debug"]
    _make_streams_safe()
    _end_like_ctrl_c(signal.SIGTERM, signal.SIGHUP)
    try:
        app(args=(["--debug"] if state.debug else []) + args, prog_name="turngym")
    except (
        SystemExit
    ) as done:  # how the library ends, after it has reported what was wrong with the arguments
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except Exception as error:
        if state.debug:
            raise
        return _report(error)
    return 0


def _report(error: Exception) -> int:
    is_foreseen = _is_ours(error) or isinstance(error, OSError)
    with contextlib.suppress(OSError):  # there may be no terminal any more
        print(f"error: {_line(error)}", file=sys.stderr)
        if not is_foreseen:
            print("This error was not foreseen: --debug shows where it comes from.", file=sys.stderr)
    if state.hung_up:
        return 130
    return 2 if is_foreseen and not _is_answer(error) else 1


def _is_ours(error: Exception) -> bool:
    """True for errors that somebody meant to raise: ours, and kinds of ours from other packages."""
    return any(kind.__module__.startswith("turngym.") for kind in type(error).__mro__)


def _is_answer(error: Exception) -> bool:
    """True for errors that mean "it ran, and the answer is no", not "you asked for something impossible"."""
    if isinstance(error, StoreNotFound | NotAStore | StoreLocked):
        return False  # another folder was meant
    if type(error) is StoreError and isinstance(error.__cause__, OSError):
        return False  # a folder in which nothing can be written
    return isinstance(error, RuntimeError)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text if _is_ours(error) else f"{type(error).__name__}: {text}"


def _make_streams_safe() -> None:
    """Nothing that is printed can fail for its letters, nor for a stream that was closed before we began."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for as long as we live)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_like_ctrl_c(*signals: signal.Signals) -> None:
    """A signal that asks to end does what Ctrl-C does at that moment: what runs ends in order and can be resumed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:  # the terminal and its shell both send one; the second must not hurry us
            state.hung_up = True
            signal.signal(number, signal.SIG_IGN)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # a background job of a script ignores Ctrl-C
            raise KeyboardInterrupt
        handler(signal.SIGINT, frame)

    for number in signals:
        if signal.getsignal(number) == signal.SIG_DFL:  # `nohup` has it ignored, and so it stays
            signal.signal(number, interrupt)


def print_json(data: Any) -> None:
    """Data for machines, on stdout, unstyled."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))  # what a table shows is text, whatever it looks like
    out.print(table)
