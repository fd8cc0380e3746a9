"""`turngym eval` and `turngym report`: how good an agent is, with the interval that the number deserves."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final

import typer
from pydantic import ValidationError

from turngym.agents.limits import Limits
from turngym.agents.protocols import Sampling
from turngym.agents.specs import make_agent
from turngym.agents.sync import run_sync
from turngym.cli.arguments import check_folder, opened, parse_pairs
from turngym.cli.console import Misuse, err, print_json, say
from turngym.envs import Env
from turngym.envs.errors import EnvError
from turngym.envs.registry import what_went_wrong
from turngym.envs.tasks import iterate
from turngym.evaluation.report import EvalReport, stored_reports
from turngym.evaluation.runner import REPORT_NAME, aevaluate
from turngym.evaluation.selection import count_tasks
from turngym.evaluation.store import STORE_NAME, RunStore

_LOOKED_AT: Final = 1000
"""Tasks whose tags are listed where nobody has the one that was asked for."""


_PLAYED, _PLAYER, _LIMITS, _RESULT = "What is played", "Who plays", "Limits of an episode", "The result"


def evaluate(
    env_id: str = typer.Argument(
        metavar="ENV", help="Id of the environment; `turngym envs list` names them."
    ),
    agent: str = typer.Option(
        ...,
        "--agent",
        "-a",
        metavar="AGENT",
        help="A reference policy of the environment (expert, null, random, or one of its own), a model that needs "
        "no folder (tiny, smollm2-135m), or a model in a folder, such as hf:runs/NAME/final.",
        rich_help_panel=_PLAYER,
    ),
    tasks: int = typer.Option(
        100, "-n", "--tasks", min=1, help="How many tasks, at most.", rich_help_panel=_PLAYED
    ),
    samples: int = typer.Option(
        1, "-k", "--samples", min=1, help="Episodes of each task.", rich_help_panel=_PLAYED
    ),
    split: str | None = typer.Option(
        None,
        metavar="NAME",
        help="Split of the tasks; default: test where there is one, or else the environment's own choice.",
        rich_help_panel=_PLAYED,
    ),
    task_id: list[str] = typer.Option(
        [], "--task", metavar="ID", help="Play this task; can be repeated.", rich_help_panel=_PLAYED
    ),
    tag: list[str] = typer.Option(
        [],
        "--tag",
        metavar="TAG",
        help="Play only tasks with this tag; can be repeated, and one of them is enough.",
        rich_help_panel=_PLAYED,
    ),
    env_arg: list[str] = typer.Option(
        [],
        "--env",
        metavar="KEY=VALUE",
        help="Argument of the environment, such as least=3; can be repeated.",
        rich_help_panel=_PLAYED,
    ),
    seed: int = typer.Option(
        0,
        min=0,
        max=2**63 - 1,
        metavar="N",
        help="Decides every random number: the same seed gives the same episodes.",
        rich_help_panel=_PLAYED,
    ),
    temperature: float = typer.Option(
        1.0,
        min=0.0,
        help="Of a model's sampling; 0 takes the likeliest token each time.",
        rich_help_panel=_PLAYER,
    ),
    system_prompt: str | None = typer.Option(
        None,
        metavar="TEXT",
        help="For a model: instead of the environment's own system prompt.",
        rich_help_panel=_PLAYER,
    ),
    concurrency: int = typer.Option(64, min=1, help="Episodes at once, at most.", rich_help_panel=_PLAYER),
    max_turns: int = typer.Option(
        16, min=1, help="Actions of the agent after which it is cut.", rich_help_panel=_LIMITS
    ),
    max_turn_tokens: int = typer.Option(
        256, min=1, help="Tokens that a model may sample in one turn.", rich_help_panel=_LIMITS
    ),
    max_tokens: int = typer.Option(
        4096, min=2, help="Tokens of its whole context after which it is cut.", rich_help_panel=_LIMITS
    ),
    max_seconds: float = typer.Option(
        600.0, min=0.001, help="Wall time after which it is cut.", rich_help_panel=_LIMITS
    ),
    out: Path | None = typer.Option(
        None,
        metavar="DIR",
        help="Folder for every episode and the report; default: keep nothing.",
        rich_help_panel=_RESULT,
    ),
    resume: bool = typer.Option(
        False,
        "--resume",
        help="Go on with the evaluation in --out that was interrupted.",
        rich_help_panel=_RESULT,
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the report as JSON.", rich_help_panel=_RESULT),
) -> None:
    """Let an agent play an environment's tasks, and report its success with a 95% interval.

    Example: `turngym eval turngym/Calculator-v0 --agent expert -n 200`

    The expert shows what can be reached, `--agent null` what silence earns. Exit code 1 if not one episode could be
    scored.
    """
    if resume and out is None:
        raise Misuse("--resume goes on with the evaluation in a folder: name it with --out")
    if out is not None:
        check_folder("--out", out)
    env_kwargs = parse_pairs("--env", env_arg)
    chosen, count = _tasks(env_id, env_kwargs, split, limit=tasks, ids=task_id or None, tags=tag or None)
    # What is not played needs no room.
    at_once = min(concurrency, count * samples)

    async def play() -> EvalReport:
        player = make_agent(
            agent,
            env_id,
            env_kwargs=env_kwargs,
            sampling=Sampling(temperature=temperature, max_tokens=max_turn_tokens),
            system_prompt=system_prompt,
            max_context=max_tokens,
            slots=at_once,
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
                concurrency=at_once,
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
        with contextlib.suppress(OSError):  # the terminal may be what ended it
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
        try:
            stored = EvalReport.model_validate_json(path.read_bytes())
        except ValidationError as error:
            raise Misuse(f"{path} is no report of turngym's, or is damaged: remove it") from error
        _show(stored, as_json)
        return
    if not (folder / STORE_NAME).is_file():
        raise Misuse(f"{folder} is no folder of a run: it has neither {REPORT_NAME} nor {STORE_NAME}")
    with RunStore(folder, read_only=True) as store:
        found = stored_reports(store)
    if not found:
        raise Misuse(f"no evaluation of {folder} has finished yet")
    if as_json:
        print_json([report.model_dump(mode="json") for reports in found.values() for report in reports])
        return
    for phase, reports in sorted(found.items()):
        say(f"{phase} · {reports[-1].env_id} · {reports[-1].episodes} episodes")
        for one in reports:
            say(f"  step {one.step:<6} success {one.success}  reward {one.reward}")


def _tasks(
    env_id: str,
    env_kwargs: dict[str, Any],
    split: str | None,
    *,
    limit: int,
    ids: list[str] | None,
    tags: list[str] | None,
) -> tuple[str, int]:
    """The split that is meant, and how many tasks of it will be played."""
    if "split" in env_kwargs:
        raise Misuse("--env split=…: the split has an option of its own, --split")
    with opened(env_id, env_kwargs) as env:
        chosen = split or ("test" if "test" in env.tasks.splits else env.split)
        try:
            count = count_tasks(env.tasks, chosen, limit=limit, ids=ids, tags=tags)
        except EnvError:
            raise
        except ValueError as error:
            raise Misuse(f"{env_id}: {error}{_tags_that_there_are(env, chosen, tags)}") from error
        except Exception as error:
            raise Misuse(what_went_wrong(f"the tasks of {env_id} cannot be read", error)) from error
    if not count:
        raise Misuse(f"{env_id}: there is no task in split {chosen!r}; choose another --split")
    return chosen, count


def _tags_that_there_are(env: Env, split: str, tags: list[str] | None) -> str:
    if tags is None:
        return ""
    size = env.tasks.size(split)
    looked_at = iterate(env.tasks, split, _LOOKED_AT if size is None else min(size, _LOOKED_AT))
    there = sorted({tag for task in looked_at for tag in task.tags})
    return f"; there are {', '.join(there)}" if there else "; its tasks have no tags, leave --tag out"


def _show(found: EvalReport, as_json: bool) -> None:
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        say(str(found))
    if found.unscored == found.episodes:
        raise typer.Exit(1)  # it ran, and there is no answer
