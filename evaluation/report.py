"""What an evaluation found: a tally that grows with each stored episode, and the report made of it."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from turngym.evaluation.metrics import Interval, Moments, mean, proportion
from turngym.evaluation.records import EpisodeSummary
from turngym.evaluation.store import RunStore
from turngym.evaluation.text import plain

ERRORS_SHOWN: Final = 3
"""How many different errors a report names."""
_ERRORS_KEPT: Final = 256  # what no two episodes share, such as a port number, must not fill the memory
_ERROR_LENGTH: Final = 200


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TagReport(_Record):
    """The episodes whose task carries one tag."""

    success: Interval | None
    """Share of successes; None where the environment reports none."""
    reward: Interval | None
    """Mean reward; None if nothing was scored."""


class EvalReport(_Record):
    """The result of an evaluation. Means are over scored episodes; other failures are counted apart."""

    env_id: str
    """The environment."""
    agent: str
    """Who played."""
    split: str
    """Split that the tasks are from."""
    step: int
    """Optimisation step of the policy (0 outside training)."""
    seed: int
    """Seed of the evaluation."""
    tasks: int
    """Tasks that were played."""
    episodes: int
    """Episodes, failures included."""
    success: Interval | None
    """Share of successes; None where the environment reports none."""
    reward: Interval | None
    """Mean reward of an episode; None if nothing was scored."""
    mean_turns: float | None
    """Turns of a scored episode."""
    mean_action_tokens: float | None
    """Sampled tokens of a scored episode; None for agents without tokens."""
    completed: int
    """Episodes that the environment ended."""
    truncated: dict[str, int]
    """Episodes that a limit cut, by limit."""
    failed: dict[str, int]
    """Episodes that failed, by the guilty party."""
    unscored: int
    """Failures that are not the agent's: excluded from every mean."""
    errors: dict[str, int] = {}
    """The most common errors of the episodes that failed, and how many had each; the most common first."""
    retried: int
    """Episodes that took more than one environment."""
    tags: dict[str, TagReport]
    """The same by tag of the task."""
    new_episodes: int
    """Episodes that were played now; the others were in the store."""
    wall_s: float
    """Wall time of this call, in seconds."""
    turns_per_s: float
    """Turns played now, per second."""
    folder: str | None = None
    """Where the episodes are stored."""

    def __str__(self) -> str:
        lines = [
            f"{self.env_id}, split {self.split}, agent {self.agent}: "
            f"{self.episodes} episodes of {self.tasks} tasks",
            f"  success   {self.success if self.success is not None else 'not reported'}",
            f"  reward    {self.reward if self.reward is not None else 'none: nothing was scored'}",
        ]
        if self.mean_turns is not None:
            tokens = "" if self.mean_action_tokens is None else f", {self.mean_action_tokens:.1f} tokens"
            lines.append(f"  episode   {self.mean_turns:.2f} turns{tokens}")
        lines.append(f"  outcomes  {self._outcomes()}")
        if self.unscored:
            lines.append(
                f"  excluded  {self.unscored} episodes failed through no fault of the agent: in no mean"
            )
        lines += self._errors()
        if self.retried:
            lines.append(f"  retried   {self.retried} episodes needed a fresh environment")
        for tag, part in sorted(self.tags.items()):
            figure = f"success {part.success}" if part.success is not None else f"reward {part.reward}"
            lines.append(f"  {tag:<9} {figure}")
        lines.append(f"  time      {self.wall_s:.1f} s, {self.turns_per_s:,.0f} turns/s")
        if self.folder is not None:
            lines.append(f"  stored in {self.folder}")
        return "\n".join(lines)

    def _errors(self) -> list[str]:
        """A line for each error that is named, and one for the others."""
        named = [f"{count} × {error}" for error, count in self.errors.items()]
        others = sum(self.failed.values()) - sum(self.errors.values())
        if named and others:
            named.append(f"{others} × other errors")
        return [f"  {'errors' if not number else '':<9} {line}" for number, line in enumerate(named)]

    def _outcomes(self) -> str:
        parts = [f"{self.completed} completed"]
        for what, causes in (("truncated", self.truncated), ("failed", self.failed)):
            if causes:
                by_cause = ", ".join(f"{cause} {count}" for cause, count in sorted(causes.items()))
                parts.append(f"{sum(causes.values())} {what} ({by_cause})")
        return ", ".join(parts)


def config_key(phase: str, step: int) -> str:
    """Where a store keeps what an evaluation was started with."""
    return f"config/{phase}/{step}"


def report_key(phase: str, step: int) -> str:
    """Where a store keeps the report of a finished evaluation."""
    return f"report/{phase}/{step}"


def stored_report(store: RunStore, phase: str, step: int) -> EvalReport | None:
    """The report of an evaluation that a store keeps; None if it has not finished.

    Raises:
        NotAStore: it is damaged.
    """
    key = report_key(phase, step)
    report = store.get_meta(key)
    try:
        return None if report is None else EvalReport.model_validate(report)
    except ValidationError as error:
        raise store.damaged(key) from error


def stored_reports(store: RunStore) -> dict[str, list[EvalReport]]:
    """The reports of finished evaluations that a store keeps, by phase, in order of steps.

    Raises:
        NotAStore: one is damaged.
    """
    found: dict[str, list[EvalReport]] = {}
    for phase, step in store.phases():
        report = stored_report(store, phase, step)
        if report is not None:
            found.setdefault(phase, []).append(report)
    return found


def forget_evaluations(store: RunStore, min_step: int) -> None:
    """Forget all evaluations from a step on: episodes, figures, options and reports."""
    for phase in {phase for phase, _ in store.phases() if phase.startswith("eval/")}:
        store.delete_episodes(phase, min_step)
        store.delete_metrics(phase, min_step)
    for kind in ("config", "report"):
        for key in store.meta_keys(f"{kind}/eval/"):
            if int(key.rpartition("/")[2]) >= min_step:
                store.delete_meta(key)


@dataclass(slots=True)
class _OpenTask:
    """A task whose samples are not all in."""

    tags: tuple[str, ...]
    seen: int = 0
    scored: int = 0
    reward: float = 0.0
    success: float = 0.0


@dataclass(slots=True)
class _Part:
    reward: Moments = field(default_factory=Moments)
    success: Moments = field(default_factory=Moments)


class Tally:
    """Counts stored episodes. Its memory grows with the episodes in flight, not with those that are done."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._open: dict[str, _OpenTask] = {}
        self._all = _Part()
        self._tags: dict[str, _Part] = {}
        self._outcomes: Counter[tuple[str, str]] = Counter()
        self._errors: Counter[str] = Counter()
        self._no_success = False
        self.tasks = 0
        self.episodes = 0
        self.scored = 0
        self.retried = 0
        self.turns = 0
        self.scored_turns = 0
        self.action_tokens = 0

    def add(self, episode: EpisodeSummary) -> None:
        """Count one more episode, after it was stored."""
        task = self._open.get(episode.task_id)
        if task is None:
            self.tasks += 1
            task = self._open[episode.task_id] = _OpenTask(episode.tags)
        task.seen += 1
        self.episodes += 1
        self.turns += episode.turns
        self.retried += episode.attempts > 1
        self._outcomes[episode.kind, episode.cause] += 1
        if episode.kind == "failed":
            self._count_error(episode.error or "without a message")
        if episode.reward is not None:
            task.scored += 1
            task.reward += episode.reward
            task.success += episode.success or 0.0
            self.scored += 1
            self.scored_turns += episode.turns
            self.action_tokens += episode.action_tokens
            # One completed episode without a success figure shows that this environment reports none.
            self._no_success |= episode.success is None
        if task.seen == self._samples:
            del self._open[episode.task_id]
            self._fold(task)

    def success(self) -> Interval | None:
        """Success so far; None where the environment reports none."""
        return None if self._no_success else proportion(self._settled()._all.success)

    def report(
        self,
        *,
        env_id: str,
        agent: str,
        split: str,
        step: int,
        seed: int,
        new_episodes: int,
        new_turns: int,
        wall_s: float,
        folder: str | None,
    ) -> EvalReport:
        """The report of everything counted so far."""
        settled = self._settled()
        outcomes = self._outcomes
        scored = self.scored
        return EvalReport(
            env_id=env_id,
            agent=agent,
            split=split,
            step=step,
            seed=seed,
            tasks=self.tasks,
            episodes=self.episodes,
            success=self.success(),
            reward=mean(settled._all.reward),
            mean_turns=self.scored_turns / scored if scored else None,
            mean_action_tokens=self.action_tokens / scored if self.action_tokens else None,
            completed=sum(count for (kind, _), count in outcomes.items() if kind == "completed"),
            truncated={cause: count for (kind, cause), count in outcomes.items() if kind == "truncated"},
            failed={cause: count for (kind, cause), count in outcomes.items() if kind == "failed"},
            unscored=self.episodes - scored,
            errors=self._common_errors(),
            retried=self.retried,
            tags={tag: self._tag_report(part) for tag, part in settled._tags.items()},
            new_episodes=new_episodes,
            wall_s=wall_s,
            turns_per_s=new_turns / wall_s if wall_s > 0 else 0.0,
            folder=folder,
        )

    def _count_error(self, error: str) -> None:
        text = plain(error)
        text = text if len(text) <= _ERROR_LENGTH else f"{text[:_ERROR_LENGTH]}…"
        if text in self._errors or len(self._errors) < _ERRORS_KEPT:
            self._errors[text] += 1

    def _common_errors(self) -> dict[str, int]:
        by_count = sorted(self._errors.items(), key=lambda item: (-item[1], item[0]))
        return dict(by_count[:ERRORS_SHOWN])

    def _tag_report(self, part: _Part) -> TagReport:
        return TagReport(
            success=None if self._no_success else proportion(part.success), reward=mean(part.reward)
        )

    def _fold(self, task: _OpenTask) -> None:
        if task.scored:
            for part in (self._all, *(self._tags.setdefault(tag, _Part()) for tag in task.tags)):
                part.reward.add_task(task.scored, task.reward)
                part.success.add_task(task.scored, task.success)

    def _settled(self) -> Tally:
        """A copy in which the open tasks are counted with the samples that they have."""
        twin = copy.copy(self)
        twin._all, twin._tags = copy.deepcopy((self._all, self._tags))
        for task in self._open.values():
            twin._fold(task)
        return twin
