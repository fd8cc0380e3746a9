"""`turngym train`: from a TOML file to a trained model in a run folder."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from turngym.cli.console import err, print_json, say
from turngym.envs.errors import MissingExtra
from turngym.evaluation.store import STORE_NAME

if TYPE_CHECKING:
    from turngym.trainer.report import TrainReport

RUNS = Path("runs")
"""Where runs go if nobody says otherwise."""


def train(
    config: Path = typer.Argument(metavar="CONFIG.toml", help="What to train, on what, and how."),
    set_: list[str] = typer.Option([], "--set", help="key.path=value instead of the file's (repeatable)."),
    folder: Path | None = typer.Option(None, "--out", help="Folder of the run; default runs/NAME-DATE-TIME."),
    resume: bool = typer.Option(
        False, help="Go on with the run in --out, or with the latest of this config."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Train a policy. Ctrl-C ends a run in order; the same line with --resume goes on with it.

    Example: `turngym train examples/calculator_grpo.toml --set seed=1`
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra('training needs PyTorch: pip install "turngym[train]"')
    from turngym.trainer.config import load_config
    from turngym.trainer.loop import train as run_training

    chosen = folder or (
        _latest(config) if resume else RUNS / f"{config.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    if resume and not (chosen / STORE_NAME).exists():
        raise typer.BadParameter(f"there is no run in {chosen} to resume")
    say(f"Run folder: {chosen}", err)
    report = run_training(load_config(config, set_), out=chosen, resume=resume)
    if as_json:
        print_json(json.loads(json.dumps(dataclasses.asdict(report), default=_plain)))
    else:
        say(str(report))
        if not report.interrupted:
            say(_next_steps(report))
    if report.interrupted:
        raise typer.Exit(130)


def _latest(config: Path) -> Path:
    of_this_config = re.compile(re.escape(config.stem) + r"-\d{8}-\d{6}")
    runs = sorted(
        path
        for path in (RUNS.iterdir() if RUNS.is_dir() else ())
        if of_this_config.fullmatch(path.name) and (path / STORE_NAME).exists()
    )
    if not runs:
        raise typer.BadParameter(f"there is no {RUNS / config.stem}-… to resume: name the folder with --out")
    return runs[-1]


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _next_steps(report: TrainReport) -> str:
    env_id = report.after.env_id if report.after is not None else "ENV"
    return "\n".join(
        (
            "",
            "What to try next:",
            f"  look at   {report.folder / 'curve.png'} and {report.folder / 'transcripts'}",
            f"  evaluate  turngym eval {env_id} --agent {shlex.quote(f'hf:{report.model}')} -n 500",
            f"  curves    tensorboard --logdir {shlex.quote(str(report.folder / 'tensorboard'))}",
            "  change    any key: turngym train CONFIG.toml --set algorithm.preset=rloo --set seed=1",
        )
    )
