"""`turngym play`: one episode in the terminal, played by a person or watched."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import typer
from rich.markup import escape

from turngym.agents.human import HumanAgent
from turngym.agents.limits import Limits
from turngym.agents.protocols import Agent, EpisodeStart, NoiseKey, Player
from turngym.agents.rollout import rollout
from turngym.agents.specs import make_agent
from turngym.agents.sync import run_sync
from turngym.agents.types import Action, Trajectory
from turngym.cli.arguments import opened, parse_pairs
from turngym.cli.console import err, out, say
from turngym.envs import ActionSpace, Env, Message
from turngym.envs.tasks import Task, draw, get_from
from turngym.envs.tool_schema import usage
from turngym.evaluation.text import plain
from turngym.evaluation.transcripts import message_lines

_PATIENT: Final = Limits(max_turns=1_000_000, max_tokens=2**31, max_seconds=1e9)
"""A person may think as long as it takes."""
_MOST_CHOICES: Final = 30


def play(
    env_id: str = typer.Argument(
        metavar="ENV", help="Id of the environment; `turngym envs list` names them."
    ),
    task_id: str | None = typer.Option(
        None, "--task", metavar="ID", help="Play this task; default: the one that the seed draws."
    ),
    split: str | None = typer.Option(
        None, metavar="NAME", help="Split of the task; default: the environment's own choice."
    ),
    seed: int = typer.Option(0, min=0, max=2**63 - 1, metavar="N", help="Decides the task and the dynamics."),
    agent: str | None = typer.Option(
        None, "--agent", "-a", metavar="AGENT", help="Watch this agent instead: expert, random, hf:PATH, …"
    ),
    env_arg: list[str] = typer.Option(
        [], "--env", metavar="KEY=VALUE", help="Argument of the environment; can be repeated."
    ),
) -> None:
    """Play an episode yourself, or watch an agent play it.

    Example: `turngym play turngym/Calculator-v0 --seed 3`

    What you type is said. A tool is called by `calculator(a=1, op="+", b=2)`, or by `{"name": "calculator",
    "arguments": {…}}`; several calls are separated by `;`. A line that ends in a backslash goes on in the next;
    a line of three quotes begins a text of several lines, which another such line ends. `> ` before a text says
    it as it is. Ctrl-D gives up.
    """
    arguments = parse_pairs("--env", env_arg)
    with opened(env_id, arguments | ({} if split is None else {"split": split})) as env:
        task = (
            draw(env.tasks, env.split, seed) if task_id is None else get_from(env.tasks, env.split, task_id)
        )
        _introduce(env, task, seed)
        player: Agent
        if agent is None:
            _explain(env)
            player = HumanAgent(_read, _show, lambda why: say(why, err))
        else:
            player = _Watched(make_agent(agent, env_id, env_kwargs=arguments))
        limits = _PATIENT if agent is None else Limits()
        try:
            played = run_sync(lambda: _play(env, player, task, seed, limits))
        except KeyboardInterrupt:
            say("\nInterrupted.", err)
            raise typer.Exit(130) from None
    _conclude(played)


async def _play(env: Env, player: Agent, task: Task, seed: int, limits: Limits) -> Trajectory:
    noise = NoiseKey(run_seed=seed, step=0, task=task.id, sample=0)
    try:
        return await rollout(env, player, task=task, seed=seed, noise=noise, limits=limits)
    finally:
        await player.close()


class _Watched:
    """An agent whose episode is shown as it goes."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def name(self) -> str:
        """Its own name."""
        return self._agent.name

    def start(self, episode: EpisodeStart) -> Player:
        """A player that shows what it is told and what it says."""
        player = self._agent.start(episode)
        act = player.act

        async def shown(new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:
            _show(new_messages)
            action = await act(new_messages, max_tokens=max_tokens)
            _show([action.message])
            return action

        player.act = shown  # type: ignore[method-assign]
        return player

    async def close(self) -> None:
        """Close the agent."""
        await self._agent.close()


def _introduce(env: Env, task: Task, seed: int) -> None:
    out.print(
        f"[bold]{escape(env.id)}[/]  [dim]task {escape(plain(task.id))} · split {escape(env.split)} · seed {seed}[/]",
        highlight=False,
        soft_wrap=True,
    )


def _explain(env: Env) -> None:
    for tool in env.tools:
        what = plain(tool.function.description)
        say(f"  {usage(tool.name, tool.function.parameters)}" + (f"    {what}" if what else ""))
    choices = env.action_space.choices if isinstance(env.action_space, ActionSpace) else None
    if choices is not None:
        more = ", …" if len(choices) > _MOST_CHOICES else ""
        say(f"  {', '.join(map(plain, choices[:_MOST_CHOICES]))}{more}")
    how = "call a tool as above, or say something" if env.tools else "say something"
    say(f'  ({how}; """ begins and ends several lines, Ctrl-D gives up)\n')


def _show(messages: Sequence[Message]) -> None:
    for message in messages:
        for line in message_lines(message):
            say(line)


def _read(prompt: str) -> str:
    with _interruptible():
        return input(prompt)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends a wait for input at once. Under asyncio it would only cancel the task, after the next line."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Any = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _conclude(played: Trajectory) -> None:
    """The last answer, and what it all came to."""
    if played.turns and played.outcome.kind != "failed":
        _show(played.turns[-1].observation)
    outcome = played.outcome
    gave_up = outcome.kind == "failed" and (outcome.error or "").startswith("GaveUp")
    how = "given up" if gave_up else f"{outcome.kind} ({outcome.cause})"
    count = len([turn for turn in played.turns if turn.action.finish_reason == "stop"])
    say(f"\n{how} · {count} turn{'s' * (count != 1)} · reward {played.reward:g}")
    if outcome.error is not None and not gave_up:
        say(f"  {plain(outcome.error)}")
    components: dict[str, float] = {}
    for turn in played.turns:
        for name, value in turn.reward_components.items():
            components[name] = components.get(name, 0.0) + value
    for title, figures in (("rewards", components), ("metrics", played.metrics)):
        if figures:
            say(f"  {title}: " + ", ".join(f"{plain(name)} {value:g}" for name, value in figures.items()))
    if not outcome.scored and not gave_up:
        raise typer.Exit(1)
