"""`turngym eval` and `turngym report`: how good an agent is, with the interval that the number deserves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from turngym.agents.limits import Limits
from turngym.agents.protocols import Sampling
from turngym.agents.specs import make_agent
from turngym.agents.sync import run_sync
from turngym.cli.arguments import parse_pairs
from turngym.cli.console import err, print_json, say
from turngym.envs import make
from turngym.evaluation.report import EvalReport, stored_reports
from turngym.evaluation.runner import REPORT_NAME, aevaluate
from turngym.evaluation.store import STORE_NAME, RunStore


def evaluate(
    env_id: str = typer.Argument(metavar="ENV", help="Id of the environment."),
    agent: str = typer.Option(
        ..., "--agent", "-a", help="expert, null, random, tiny, smollm2-135m, or hf:PATH of a model folder."
    ),
    tasks: int = typer.Option(100, "-n", "--tasks", min=1, help="The most tasks."),
    samples: int = typer.Option(1, "-k", "--samples", min=1, help="Episodes of each task."),
    split: str | None = typer.Option(None, help="Split of the tasks; default test, or the only one."),
    out: Path | None = typer.Option(
        None, help="Folder for the run store and the report; default: keep nothing."
    ),
    resume: bool = typer.Option(False, help="Go on with the evaluation that --out holds."),
    concurrency: int = typer.Option(64, min=1, help="Episodes at once."),
    seed: int = typer.Option(0, min=0, help="Decides every random number."),
    temperature: float = typer.Option(1.0, min=0.0, help="Of a model's sampling; 0 is greedy."),
    max_turn_tokens: int = typer.Option(
        256, min=1, help="The most tokens that a model may sample in one turn."
    ),
    max_tokens: int = typer.Option(4096, min=2, help="Tokens of an episode's context."),
    max_turns: int = typer.Option(16, min=1, help="Actions after which an episode is cut."),
    max_seconds: float = typer.Option(600.0, min=0.001, help="Wall time of an episode."),
    system_prompt: str | None = typer.Option(None, help="Replaces the environment's own."),
    task_id: list[str] = typer.Option([], "--task", help="Play this task (repeatable)."),
    tag: list[str] = typer.Option([], "--tag", help="Play only tasks with this tag (repeatable)."),
    env_arg: list[str] = typer.Option(
        [], "--env", help="key=value argument of the environment (repeatable)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the report as JSON."),
) -> None:
    """Play an environment's tasks and report success with a 95% interval.

    Example: `turngym eval turngym/Calculator-v0 --agent expert -n 200`
    """
    if resume and out is None:
        raise typer.BadParameter("--resume goes on with the evaluation in a folder: name it with --out")
    env_kwargs = parse_pairs("--env", env_arg)
    chosen = split if split is not None else _default_split(env_id, env_kwargs)

    async def play() -> EvalReport:
        player = make_agent(
            agent,
            env_id,
            env_kwargs=env_kwargs,
            sampling=Sampling(temperature=temperature, max_tokens=max_turn_tokens),
            system_prompt=system_prompt,
            max_context=max_tokens,
            slots=concurrency,
            seed=seed,
        )
        try:
            return await aevaluate(
                env_id,
                player,
                split=chosen,
                tasks=tasks,
                samples=samples,
                task_ids=task_id or None,
                tags=tag or None,
                out=out,
                concurrency=concurrency,
                limits=Limits(max_turns=max_turns, max_tokens=max_tokens, max_seconds=max_seconds),
                seed=seed,
                resume=resume,
                progress=not as_json,
                env_kwargs=env_kwargs,
            )
        finally:
            await player.close()

    try:
        found = run_sync(play)
    except KeyboardInterrupt:
        kept = f"{out} keeps what was played: add --resume to go on" if out else "nothing was kept (no --out)"
        say(f"Interrupted; {kept}.", err)
        raise typer.Exit(130) from None
    _show(found, as_json)


def report(
    folder: Path = typer.Argument(metavar="DIR", help="Folder of an evaluation or of a training run."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON; a list of reports for a training run."),
) -> None:
    """Show the report of a finished evaluation again, or those of all evaluations of a training run.

    Example: `turngym report runs/eval`
    """
    path = folder / REPORT_NAME
    if path.is_file():
        _show(EvalReport.model_validate(json.loads(path.read_text(encoding="utf-8"))), as_json)
        return
    if not (folder / STORE_NAME).is_file():
        raise typer.BadParameter(
            f"{folder} is no folder of a run: it has neither {REPORT_NAME} nor {STORE_NAME}"
        )
    with RunStore(folder, read_only=True) as store:
        found = stored_reports(store)
    if not found:
        raise typer.BadParameter(f"no evaluation of {folder} has finished yet")
    if as_json:
        print_json([report.model_dump(mode="json") for reports in found.values() for report in reports])
        return
    for phase, reports in sorted(found.items()):
        say(f"{phase} · {reports[-1].env_id} · {reports[-1].episodes} episodes")
        for one in reports:
            say(f"  step {one.step:<6} success {one.success}  reward {one.reward}")


def _default_split(env_id: str, env_kwargs: dict[str, Any]) -> str:
    env = make(env_id, **env_kwargs)
    try:
        return "test" if "test" in env.tasks.splits else env.split
    finally:
        env.close()


def _show(found: EvalReport, as_json: bool) -> None:
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        say(str(found))
    if found.unscored == found.episodes:
        raise typer.Exit(1)  # it ran, and there is no answer
