"""How long an episode may go on: turns, tokens, wall time. Hitting a limit truncates, never terminates."""

from __future__ import annotations

from dataclasses import dataclass

from turngym.envs.tasks import TaskLimits


@dataclass(frozen=True, slots=True)
class Limits:
    """The runner's limits for one episode. A limit that is a rule of the task belongs to the environment."""

    max_turns: int = 16
    """Actions after which the episode is cut."""
    max_tokens: int = 4096
    """Tokens of the episode's context, the sampled ones included."""
    max_seconds: float = 600.0
    """Wall time of the episode."""

    def __post_init__(self) -> None:
        for name in ("max_turns", "max_tokens", "max_seconds"):
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} must be above 0, not {value}")

    def within(self, task: TaskLimits) -> Limits:
        """These limits and the task's own: the smaller of each wins."""
        if task.max_turns is None and task.max_tokens is None and task.max_seconds is None:
            return self
        return Limits(
            max_turns=min(self.max_turns, task.max_turns or self.max_turns),
            max_tokens=min(self.max_tokens, task.max_tokens or self.max_tokens),
            max_seconds=min(self.max_seconds, task.max_seconds or self.max_seconds),
        )
