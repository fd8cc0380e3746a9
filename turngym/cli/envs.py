"""`turngym envs`: what environments there are, and whether one keeps the laws."""

from __future__ import annotations

import dataclasses

import typer
from rich.markup import escape

from turngym.cli.console import out, print_json, print_table
from turngym.envs import check as check_env
from turngym.envs import list_envs

app = typer.Typer(help="List and check environments.", no_args_is_help=True)


@app.command("list")
def list_command(
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the registered environments.

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
    env_id: str = typer.Argument(help="Id of the environment, such as turngym/Calculator-v0."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check that an environment keeps the laws: one named law per line, exit code 1 if one is broken.

    Example: `turngym envs check turngym/Calculator-v0`
    """
    results = check_env(env_id)
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
