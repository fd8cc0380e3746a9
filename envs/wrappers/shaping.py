"""Shaping: a reward added from outside to what an environment pays, under a name of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import gymnasium

from turngym.envs.env import Observation, ResetResult, StepResult
from turngym.envs.errors import ContractError
from turngym.envs.rewards import Reward
from turngym.envs.spaces import as_action
from turngym.envs.wrappers.base import Wrapper
from turngym.sandboxes.async_bridge import run_inline

_NAMES: Final = frozenset({"task", "target", "action", "history", "answer"})


class ShapedReward(Wrapper):
    """Adds one reward function, marked with `@reward` or not.

    It names what it needs among task, target, action (the assistant's message), history (every message so far, the
    answers to this action included) and answer (the action's text where it calls no tool, else ""). Weight, range,
    name and `when` are those of `@reward`; what it pays is among the components, and with weight 0 among the
    metrics.

        ShapedReward(env, reward(weight=-0.1, when="turn", name="shouting")(lambda action:
        float(action.text.isupper())))

    Args:
        env: what is wrapped.
        function: the reward. `when="end"` pays where the environment terminates, not where a limit cuts.

    Raises:
        ContractError: the function is async, compares groups, or names something else.
    """

    shared = ("_reward",)

    def __init__(self, env: gymnasium.Env[Observation, Any], function: Callable[..., Any]) -> None:
        super().__init__(env, function=function)
        self._reward = Reward.of(function)
        name = self._reward.name
        if unknown := [key for key, _ in self._reward.needs if key not in _NAMES]:
            known = ", ".join(sorted(_NAMES))
            raise ContractError(f"the shaping reward {name} names {unknown[0]!r}; it can have {known}")
        if self._reward.is_async or self._reward.group:
            raise ContractError(f"the shaping reward {name} must be a plain function, of one episode")
        self._said: Observation = ()
        self._measured = 0.0

    def on_reset(self, result: ResetResult) -> ResetResult:
        """Nothing was said or measured yet."""
        self._said, self._measured = result[0], 0.0
        return result

    def on_step(self, action: Any, result: StepResult) -> StepResult:
        """Add what is due."""
        observation, paid, terminated, was_truncated, info = result
        message = as_action(action)
        self._said = (*self._said, message, *observation)
        one = self._reward
        if one.when == "turn" or terminated:
            seen = SimpleNamespace(
                id=f"the wrapper of {type(self.unwrapped).__name__}",
                task=getattr(self.unwrapped, "task", None),
                action=message,
                history=self._said,
                answer="" if message.tool_calls else message.text,
            )
            value = run_inline(one.value(seen))
            if one.weight:
                paid += one.weight * value
                info["reward_components"] = {**info.get("reward_components", {}), one.name: value}
            self._measured += value
        if not one.weight and (terminated or was_truncated):
            info["metrics"] = {**info.get("metrics", {}), one.name: self._measured}
        return observation, paid, terminated, was_truncated, info
