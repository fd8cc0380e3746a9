"""`turngym envs`: what environments there are, and whether one keeps the laws."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.markup import escape

from turngym.cli.arguments import check_folder
from turngym.cli.console import Misuse, out, print_json, say
from turngym.cli.new import write_package
from turngym.envs import CheckResult, EnvListing, list_envs
from turngym.envs import check as check_env
from turngym.envs.errors import MissingExtra, UnknownEnv
from turngym.envs.registry import what_went_wrong

app = typer.Typer(
    help="Environments: list those there are, check that one keeps its promises, write a new one.",
    no_args_is_help=True,
)


@app.command("list")
def list_command(
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List the environments: those that come with turngym, and those of installed packages that announce theirs.

    One whose extra is not installed is listed with what to install.

    Example: `turngym envs list --json`
    """
    infos = list_envs()
    if as_json:
        print_json([dataclasses.asdict(info) for info in infos])
        return
    for info in infos:
        out.print(f"[bold]{escape(info.id)}[/]  {escape(_facts(info))}", highlight=False, soft_wrap=True)
        if info.summary:
            out.print(f"    {escape(info.summary)}", highlight=False, soft_wrap=True)
        if info.problem is not None:
            what = "not installed" if info.lacks_extra else "cannot be made here"
            out.print(f"    [yellow]{what}[/]: {escape(info.problem)}", highlight=False, soft_wrap=True)


def _facts(info: EnvListing) -> str:
    """Kind, turns, tasks of each split, extras: in one line."""
    facts = [info.kind] if info.kind else []
    if info.problem is None:
        sizes = zip(info.splits, info.sizes, strict=True)
        facts.append("no limit of turns" if info.max_turns is None else f"{info.max_turns} turns")
        facts.append(", ".join(f"{split} {'∞' if size is None else f'{size:,}'}" for split, size in sizes))
    if info.extras:
        state = "not installed" if info.lacks_extra else "installed" if info.problem is None else "needed"
        facts.append(f"extra {', '.join(info.extras)} ({state})")
    return " · ".join(facts)


@app.command("new")
def new_command(
    name: str = typer.Argument(metavar="NAME", help="Name of the package, such as my-shop."),
    kind: str = typer.Option(
        "tool", metavar="KIND", help="tool: functions that a model calls. text: a step of your own."
    ),
    place: Path = typer.Option(
        Path(), "--dir", metavar="DIR", help="Where its folder is made; default: here."
    ),
) -> None:
    """Write a package with an environment of your own, which installs, passes the check and trains as it is.

    Example: `turngym envs new my-shop`

    Nothing is overwritten.
    """
    check_folder("--dir", place)
    names, paths = write_package(name, kind, place)
    for path in paths:
        say(f"  {path}")
    folder = shlex.quote(str(place / name))
    say(
        f"\nNext:\n  pip install -e {folder}\n  turngym envs check {names.id}\n  turngym play {names.id}\n"
        f"  turngym train {shlex.quote(str(place / name / 'train.toml'))}"
    )


@app.command("check")
def check_command(
    env_id: str | None = typer.Argument(
        None, metavar="ENV", help="Id of the environment; package:ID imports the package first."
    ),
    everything: bool = typer.Option(False, "--all", help="Check every environment that there is."),
    tasks: int = typer.Option(16, min=1, help="How many tasks of each split to play, at most."),
    episodes: int = typer.Option(200, min=1, help="How many episodes of random actions to play."),
    seed: int = typer.Option(0, min=0, help="Of the episodes and of the random actions."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Play an environment and check that it keeps the laws: one named law per line.

    Example: `turngym envs check turngym/Calculator-v0`

    Exit code 1 if a law is broken. With --all, environments whose extra is not installed are named and left out.
    """
    if everything == (env_id is not None):
        raise Misuse("name one environment, or write --all for every one of them")
    options = {"tasks": tasks, "episodes": episodes, "seed": seed}
    reports: list[_Report] = []
    for id in [env_id] if env_id is not None else [info.id for info in list_envs()]:
        reports.append(_report(id, options))
        if env_id is not None and reports[0].not_checked is not None:
            raise reports[0].not_checked
        if not as_json:
            reports[-1].show(heading=everything)
    if as_json:
        data = [report.data() for report in reports]
        print_json(data if everything else data[0]["laws"])
    elif everything:
        skipped = sum(report.not_checked is not None for report in reports)
        kept = sum(report.ok for report in reports) - skipped
        say(f"\n{kept} of {len(reports)} keep every law" + (f", {skipped} not checked" if skipped else ""))
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Report:
    """What a check found out about one environment."""

    env_id: str
    results: tuple[CheckResult, ...] = ()
    not_checked: MissingExtra | None = None

    @property
    def ok(self) -> bool:
        """True if no law was found broken."""
        return all(result.ok for result in self.results)

    def data(self) -> dict[str, Any]:
        """The report for machines."""
        laws = [dataclasses.asdict(result) for result in self.results]
        reason = None if self.not_checked is None else str(self.not_checked)
        return {"id": self.env_id, "laws": laws, "not_checked": reason}

    def show(self, *, heading: bool) -> None:
        """The report for people, one line a law."""
        if heading:
            out.print(f"\n[bold]{escape(self.env_id)}[/]", highlight=False)
        if self.not_checked is not None:
            out.print(f"– not checked: {escape(str(self.not_checked))}", highlight=False, soft_wrap=True)
        for result in self.results:
            mark = "[green]✓[/]" if result.ok else "[red]✗[/]"
            detail = f"  [dim]{escape(' '.join(result.detail.split()))}[/]" if result.detail else ""
            out.print(f"{mark} {escape(result.name)}{detail}", highlight=False, soft_wrap=True)


def _report(env_id: str, options: dict[str, int]) -> _Report:
    try:
        return _Report(env_id, tuple(check_env(env_id, **options)))
    except UnknownEnv:
        raise
    except MissingExtra as missing:
        return _Report(env_id, not_checked=missing)
    except Exception as error:  # noqa: BLE001 (the author's, whatever it is: that is what was asked)
        return _Report(env_id, (CheckResult("it can be made", False, what_went_wrong("it raised", error)),))
