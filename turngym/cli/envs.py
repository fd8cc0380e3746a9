"""`turngym envs`: what environments there are, and whether one keeps the laws."""

from __future__ import annotations

import dataclasses

import typer
from rich.markup import escape

from turngym.cli.console import out, print_json, print_table
from turngym.envs import CheckResult, list_envs
from turngym.envs import check as check_env
from turngym.envs.errors import MissingExtra, UnknownEnv
from turngym.envs.registry import what_went_wrong

app = typer.Typer(
    help="Environments: list those there are, check that one keeps its promises.", no_args_is_help=True
)


@app.command("list")
def list_command(
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the environments: those that come with turngym, and those of installed packages that announce theirs.

    Example: `turngym envs list --json`
    """
    infos = list_envs()
    if as_json:
        print_json([dataclasses.asdict(info) for info in infos])
        return
    print_table(
        "Environments",
        ["id", "kind", "splits", "what it is"],
        [[info.id, info.kind, ", ".join(info.splits), info.problem or info.summary] for info in infos],
    )


@app.command("check")
def check_command(
    env_id: str = typer.Argument(
        metavar="ENV", help="Id of the environment; package:ID imports the package first."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Play an environment and check that it keeps the laws: one named law per line.

    Example: `turngym envs check turngym/Calculator-v0`

    Exit code 1 if a law is broken.
    """
    try:
        results = check_env(env_id)
    except (UnknownEnv, MissingExtra):
        raise
    except Exception as error:  # noqa: BLE001 (the author's, whatever it is: that is what was asked)
        results = [CheckResult("it can be made", False, what_went_wrong("it raised", error))]
    if as_json:
        print_json([dataclasses.asdict(result) for result in results])
    else:
        for result in results:
            mark = "[green]✓[/]" if result.ok else "[red]✗[/]"
            out.print(
                f"{mark} {escape(result.name)}"
                + (f"  [dim]{escape(result.detail)}[/]" if result.detail else ""),
                highlight=False,
            )
    if not all(result.ok for result in results):
        raise typer.Exit(1)
