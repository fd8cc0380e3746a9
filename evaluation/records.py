"""What is known of an episode without decoding it: the columns of the run store, as records."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turngym.agents.types import OutcomeCause, OutcomeKind, Trajectory


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """The figures of one episode."""

    phase: str
    """"train", "sft", or "eval/<name>"."""
    step: int
    """Optimisation step."""
    task_id: str
    """The task."""
    sample: int
    """Number of the episode among those of its task."""
    group: int
    """Group that it was compared within."""
    tags: tuple[str, ...]
    """Tags of the task."""
    kind: OutcomeKind
    """Completed, truncated or failed."""
    cause: OutcomeCause
    """The limit, or the guilty party."""
    attempts: int
    """Fresh environments that it took."""
    reward: float | None
    """Sum of its rewards; None where the outcome has no score."""
    success: float | None
    """What the environment reports; 0 if the episode was cut, or failed by the agent's fault, before that;
    None where it is not reported or the outcome has no score."""
    turns: int
    """Number of turns."""
    action_tokens: int
    """Sampled tokens; 0 for agents without tokens."""
    wall_s: float
    """Wall time in seconds."""
    error: str | None = None
    """One line of the error of an episode that failed. It has no column: it is in the trajectory."""

    @property
    def key(self) -> tuple[str, int, str, int]:
        """What names it uniquely within a run."""
        return self.phase, self.step, self.task_id, self.sample

    @property
    def scored(self) -> bool:
        """False for failures that are not the agent's."""
        return self.reward is not None

    def row(self) -> tuple[Any, ...]:
        """The values of its columns, in order."""
        return (
            self.phase, self.step, self.task_id, self.sample,
            self.group, json.dumps(self.tags) if self.tags else "[]",
            self.kind, self.cause, self.attempts,
            self.reward, self.success, self.turns, self.action_tokens, self.wall_s,
        )  # fmt: skip

    @classmethod
    def of_row(cls, row: Sequence[Any], error: str | None) -> EpisodeSummary:
        """The summary whose columns these are, and its error.

        Raises:
            ValueError: the columns are damaged.
        """
        phase, step, task_id, sample, group, tags, *figures = row
        labels = tuple(json.loads(tags)) if tags != "[]" else ()
        return cls(phase, step, task_id, sample, group, labels, *(*figures, error))


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One step of a learning curve."""

    step: int
    """Optimisation step."""
    episodes: int
    """Episodes of the step, unscored failures included."""
    scored: int
    """Episodes that the means are over."""
    reward: float | None
    """Mean reward; None if nothing was scored."""
    success: float | None
    """Mean success; None if the environment reports none."""


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """An episode as it lies in the store."""

    summary: EpisodeSummary
    """Its figures."""
    trajectory: Trajectory
    """The whole record."""


def summarise(
    phase: str, step: int, trajectory: Trajectory, *, group: int = 0, tags: Sequence[str] = ()
) -> EpisodeSummary:
    """The figures of a trajectory."""
    outcome = trajectory.outcome
    return EpisodeSummary(
        phase=phase,
        step=step,
        task_id=trajectory.task_id,
        sample=trajectory.sample,
        group=group,
        tags=tuple(tags),
        kind=outcome.kind,
        cause=outcome.cause,
        attempts=trajectory.attempts,
        reward=float(trajectory.reward) if outcome.scored else None,
        success=_success(trajectory) if outcome.scored else None,
        turns=len(trajectory.turns),
        action_tokens=trajectory.action_token_count(),
        wall_s=trajectory.wall_s,
        error=outcome.error,
    )


def _success(trajectory: Trajectory) -> float | None:
    reported = trajectory.metrics.get("success")
    if reported is None and trajectory.outcome.kind != "completed":
        return (
            0.0  # cut, or failed by the agent's fault: it did not reach the point where success is reported
        )
    return reported
