"""For policies without a memory: the observation is the whole conversation instead of what is new in it."""

from __future__ import annotations

from typing import Any

import gymnasium

from turngym.envs.env import Observation, ResetResult, StepResult
from turngym.envs.spaces import as_action
from turngym.envs.wrappers.base import Wrapper


class WholeConversation(Wrapper):
    """Observations are the prompt, every action and every answer so far.

    Not for turngym's own rollouts: they keep the conversation, token by token, and refuse an environment that
    repeats it.

    Args:
        env: what is wrapped.
    """

    observes_whole_conversation = True
    """What rollouts look for."""

    def __init__(self, env: gymnasium.Env[Observation, Any]) -> None:
        super().__init__(env)
        self._said: Observation = ()

    def on_reset(self, result: ResetResult) -> ResetResult:
        """The conversation begins."""
        self._said, info = result
        return self._said, info

    def on_step(self, action: Any, result: StepResult) -> StepResult:
        """The conversation so far."""
        observation, *rest = result
        self._said = (*self._said, as_action(action), *observation)
        return self._said, *rest  # type: ignore[return-value]
