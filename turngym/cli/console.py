"""Manners that all commands share: one-line errors that say what to do, exit codes, tables and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console()
err = Console(stderr=True)


def say(text: str, console: Console = out) -> None:
    """Print a text as it is: no markup, no colours, and no line broken, so that a path or a command can be copied."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


@dataclass(slots=True)
class _State:
    debug: bool = False


state = _State()


def run(app: typer.Typer) -> int:
    """Run a command line and return its exit code; an error becomes a line on stderr, a traceback only with
    `--debug`."""
    state.debug = "--debug" in sys.argv
    # `--debug` may stand anywhere, since people add it to the end of the line that just failed.
    args = [a for a in sys.argv[1:] if a != "--debug"]
    try:
        app(args=(["--debug"] if state.debug else []) + args)
    except (
        SystemExit
    ) as done:  # how the library ends, after it has reported what was wrong with the arguments
        return done.code if isinstance(done.code, int) else int(done.code is not None)
    except Exception as error:
        if state.debug:
            raise
        print(f"error: {_line(error)}", file=sys.stderr)
        if not _ours(error):
            print("This error was not foreseen: --debug shows where it comes from.", file=sys.stderr)
            return 1
        return 1 if _answered(error) else 2
    return 0


def _ours(error: Exception) -> bool:
    return type(error).__module__.startswith("turngym.") or isinstance(error, OSError)


def _answered(error: Exception) -> bool:
    """True for errors that mean "it ran, and the answer is no", not "you asked for something impossible"."""
    return isinstance(error, RuntimeError)


def _line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text if type(error).__module__.startswith("turngym.") else f"{type(error).__name__}: {text}"


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
