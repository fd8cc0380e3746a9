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

from turngym.cli.arguments import check_folder
from turngym.cli.console import Misuse, err, print_json, say
from turngym.envs.errors import MissingExtra
from turngym.evaluation.store import STORE_NAME

if TYPE_CHECKING:
    from turngym.trainer.report import TrainReport

RUNS = Path("runs")
"""Where runs go if nobody says otherwise."""


def train(
    config: Path = typer.Argument(
        metavar="CONFIG.toml", help="What to train, on what, and how; docs/training.md explains every key."
    ),
    set_: list[str] = typer.Option(
        [],
        "--set",
        metavar="KEY=VALUE",
        help="Replace or add a key of the file, such as optim.lr=1e-4; can be repeated.",
    ),
    folder: Path | None = typer.Option(
        None, "--out", metavar="DIR", help="Folder of the run; default: runs/NAME-DATE-TIME."
    ),
    resume: bool = typer.Option(
        False, "--resume", help="Go on with the run in --out, or with the latest of this CONFIG in runs/."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Train a model on an environment, as a TOML file says.

    Example: `turngym train examples/calculator_grpo.toml --set seed=1`

    What cannot work is said before anything is loaded. The run's folder holds every episode, checkpoints, the
    trained model, and the reward curve. Ctrl-C ends a run in order; the same line with `--resume` goes on with it.
    """
    if importlib.util.find_spec("torch") is None:
        raise MissingExtra('training needs PyTorch: pip install "turngym[train]"')
    chosen = folder or (
        _latest(config) if resume else RUNS / f"{config.stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    )
    check_folder("--out", chosen)
    if resume and not (chosen / STORE_NAME).exists():
        raise Misuse(f"there is no run in {chosen} to resume: name the folder of one with --out")
    from turngym.trainer.config import load_config
    from turngym.trainer.loop import train as run_training

    told = load_config(config, set_)
    say(f"Run folder: {chosen}", err)
    report = run_training(told, out=chosen, resume=resume)
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
        raise Misuse(f"there is no {RUNS / config.stem}-… to resume: name the folder with --out")
    return runs[-1]


def _plain(value: object) -> object:
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


def _next_steps(report: TrainReport) -> str:
    """What a person may want to do now; a file is named where it is there."""
    env_id = report.after.env_id if report.after is not None else "ENV"
    results = [path for name in ("curve.png", "transcripts") if (path := report.folder / name).exists()]
    events = report.folder / "tensorboard"
    lines = ["", "What to try next:"]
    if results:
        lines.append(f"  look at   {' and '.join(map(str, results))}")
    lines.append(f"  evaluate  turngym eval {env_id} --agent {shlex.quote(f'hf:{report.model}')} -n 500")
    if events.exists():
        lines.append(f"  curves    tensorboard --logdir {shlex.quote(str(events))}")
    lines.append("  change    any key: turngym train CONFIG.toml --set algorithm.preset=rloo --set seed=1")
    return "\n".join(lines)
