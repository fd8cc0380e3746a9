"""The `turngym` command: a thin layer over the packages, with one place for manners.

Exit codes: 0 it ran and the answer is yes, 1 it ran and the answer is no, 2 misuse, 130 interrupted.
"""

from __future__ import annotations

import sys

import typer

import turngym
from turngym.cli import console, envs, evaluation, sandbox, training

app = typer.Typer(
    name="turngym",
    help="A gym for language-model agents: environments, evaluation and training.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(envs.app, name="envs")
app.add_typer(sandbox.app, name="sandbox")
app.command("eval")(evaluation.evaluate)
app.command("report")(evaluation.report)
app.command("train")(training.train)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"turngym {turngym.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: bool = typer.Option(False, "--debug", help="Show tracebacks instead of one-line errors."),
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    console.state.debug = debug


def main() -> None:
    """Entry point of the `turngym` command."""
    sys.exit(console.run(app))
