"""The `turngym` command: a thin layer over the packages, with one place for manners.

Exit codes: 0 it ran and the answer is yes, 1 it ran and the answer is no, 2 misuse, 130 interrupted.
"""

from __future__ import annotations

import sys

import typer

import turngym
from turngym.cli import console, envs, evaluation, play, sandbox, training

_HELP = """A gym for language-model agents: environments, evaluation and training.

See what there is, play it, train on it, and measure what was learned:

- `turngym envs list`
- `turngym play turngym/Calculator-v0`
- `turngym eval turngym/Calculator-v0 --agent expert`
- `turngym train examples/calculator_grpo.toml`
- `turngym eval turngym/Calculator-v0 --agent hf:runs/NAME/final`

Exit codes: 0 yes, 1 it ran and the answer is no, 2 misuse, 130 interrupted.
"""

app = typer.Typer(
    name="turngym",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(envs.app, name="envs")
app.add_typer(sandbox.app, name="sandbox")
app.command("play")(play.play)
app.command("eval")(evaluation.evaluate)
app.command("report")(evaluation.report)
app.command("train")(training.train)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"turngym {turngym.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: bool = typer.Option(
        False, "--debug", help="Show the traceback of an error, not only its one line."
    ),
    _version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    console.state.debug = debug


def main() -> None:
    """Entry point of the `turngym` command."""
    sys.exit(console.run(app))
