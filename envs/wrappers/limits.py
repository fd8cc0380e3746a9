"""Limits from outside: they truncate, because the task could have gone on.

A limit that is a rule of the task belongs into the environment (`max_turns`), and terminates.
"""

from __future__ import annotations

from time import monotonic
from typing import Any

import gymnasium

from turngym.envs.env import Observation, ResetResult, StepResult
from turngym.envs.wrappers.base import Wrapper, truncated


class TurnLimit(Wrapper):
    """Cuts an episode after a number of actions; the last one is still answered.

    Unlike Gymnasium's TimeLimit it never sets both flags: an episode that ends with its last action has terminated.

    Args:
        env: what is wrapped.
        max_turns: the most actions.

    Raises:
        ValueError: fewer than one.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], max_turns: int) -> None:
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, not {max_turns}")
        super().__init__(env, max_turns=max_turns)
        self._max_turns = max_turns
        self._turns = 0

    def on_reset(self, result: ResetResult) -> ResetResult:
        """No action was taken yet."""
        self._turns = 0
        return result

    def on_step(self, action: Any, result: StepResult) -> StepResult:  # noqa: ARG002
        """Cut after the last action."""
        self._turns += 1
        return truncated(result) if self._turns >= self._max_turns else result


class WallTimeLimit(Wrapper):
    """Cuts an episode with the first step that ends later than so many seconds after the reset.

    A step that hangs is not interrupted: rollouts do that (`--max-seconds`). The same actions may be cut elsewhere
    the next time.

    Args:
        env: what is wrapped.
        max_seconds: of an episode, the agent's thinking included. A fork's time goes on from where it was forked.

    Raises:
        ValueError: not a positive number.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], max_seconds: float) -> None:
        if not max_seconds > 0:
            raise ValueError(f"max_seconds must be above 0, not {max_seconds}")
        super().__init__(env, max_seconds=max_seconds)
        self._max_seconds = max_seconds
        self._began_at = monotonic()

    def on_reset(self, result: ResetResult) -> ResetResult:
        """The clock starts."""
        self._began_at = monotonic()
        return result

    def on_step(self, action: Any, result: StepResult) -> StepResult:  # noqa: ARG002
        """Cut if the time is over."""
        return truncated(result) if monotonic() - self._began_at > self._max_seconds else result
