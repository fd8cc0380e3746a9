"""An episode as text that a person reads: who said what, what was called and paid, how it ended."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from turngym.agents.types import Outcome, Trajectory
from turngym.envs.messages import Message
from turngym.evaluation.store import RunStore
from turngym.evaluation.text import plain

_MARGIN = " " * 11
_LONGEST_NAME = 120


def transcript(trajectory: Trajectory) -> str:
    """The whole episode. Control characters are escaped: what a model says cannot act on a terminal."""
    return "\n".join(_lines(trajectory)) + "\n"


def write_transcripts(
    store: RunStore, folder: Path | str, *, phase: str | None = None, step: int | None = None, count: int = 5
) -> list[Path]:
    """Write the first `count` episodes of a phase and step as text files, and return their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for episode in store.episodes(phase, step):
        if len(paths) == count:
            break
        phase_name, *rest = map(str, episode.summary.key)
        paths.append(folder / _file_name("-".join((phase_name.replace("/", "-"), *rest))))
        paths[-1].write_text(transcript(episode.trajectory), encoding="utf-8")
    return paths


def _file_name(key: str) -> str:
    """A name that any file system takes; two keys that it would spell alike get different ones."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", key)
    if name == key and len(name) <= _LONGEST_NAME:
        return f"{name}.txt"
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.txt"


def _lines(trajectory: Trajectory) -> Iterator[str]:
    task = f"task {plain(trajectory.task_id)} · sample {trajectory.sample} · seed {trajectory.seed}"
    yield f"{plain(trajectory.env_id)} · {task}"
    if trajectory.tools:
        yield f"tools: {', '.join(plain(tool.name) for tool in trajectory.tools)}"
    yield ""
    for message in trajectory.prompt:
        yield from message_lines(message)
    for number, turn in enumerate(trajectory.turns, start=1):
        tokens = turn.action.tokens
        size = "" if tokens is None else f" · {len(tokens.action_ids)} tokens"
        yield f"── turn {number}{size} " + "─" * 30
        yield from message_lines(turn.action.message)
        if turn.action.finish_reason == "length":
            yield f"{_MARGIN}(cut off by the token limit; the environment never saw it)"
        for message in turn.observation:
            yield from message_lines(message)
        if turn.reward or turn.reward_components:
            parts = ", ".join(f"{plain(name)} {value:g}" for name, value in turn.reward_components.items())
            yield f"{'reward':>9}  {turn.reward:g}" + (f" ({parts})" if parts else "")
    yield "─" * 40
    yield " · ".join(_ending(trajectory))


def message_lines(message: Message) -> Iterator[str]:
    """One message for a person to read: who speaks, what is said, what is called."""
    said: list[str] = []
    if message.reasoning_content:
        said += ["(thinking)", *plain(message.reasoning_content).split("\n"), "(says)"]
    if message.content:
        said += plain(message.content).split("\n")
    for call in message.tool_calls:
        said.append(f"→ {plain(call.name) or '?'}({plain(call.function.arguments)})")
        if call.parse_error is not None:
            said.append(f"  malformed: {plain(call.parse_error)}")
    who = message.role if message.role != "tool" else plain(message.name or "tool")
    for label, line in zip([who, *[""] * len(said)], said or ["(nothing)"], strict=False):
        yield f"{label:>9}  {line}".rstrip()


def _ending(trajectory: Trajectory) -> Iterator[str]:
    outcome: Outcome = trajectory.outcome
    yield f"{outcome.kind} ({outcome.cause})"
    if outcome.error is not None:
        yield plain(outcome.error)
    yield f"reward {trajectory.reward:g}" if outcome.scored else "not scored"
    for name, value in trajectory.metrics.items():
        yield f"{plain(name)} {value:g}"
    yield f"{len(trajectory.turns)} turns"
    if tokens := trajectory.action_token_count():
        yield f"{tokens} tokens"
    if trajectory.attempts > 1:
        yield f"{trajectory.attempts} attempts"
    yield f"{trajectory.wall_s:.2f} s"
