"""Tool-use environments: tools, tasks and rewards are all that an author writes.

An assistant message with tool calls is answered with their results; one without is the final answer, which is
graded, unless the environment has somebody who replies (`hear`).

    class Capitals(ToolEnv):
        tasks = questions(train={"Capital of France?": "Paris"}, test={"Capital of Peru?": "Lima"})

        @tool
        def lookup(self, country: str) -> str: ...

        @reward
        def correct(self, answer: str, target: str) -> float: ...
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from turngym.envs.env import Env, Observation, ResetResult, StepResult
from turngym.envs.errors import ContractError
from turngym.envs.messages import Message, system
from turngym.envs.rewards import Reward, Rewards, class_rewards
from turngym.envs.tasks import TaskSet
from turngym.envs.tools import Tool, Toolbox, class_tools


class ToolEnv(Env):
    """A conversation with tools that ends with the first message that calls none.

    Args:
        tasks: default: the class's own.
        split: default "train".
        tools: more tools, as functions.
        rewards: more rewards, as functions.
        system_prompt: instead of the class's.
        max_turns: instead of the class's. At the last turn the calls are still answered, then the episode
            terminates and is graded with an empty answer.
        only_tools: names of the tools to offer; default all.

    Its metrics at the end: `success` (the reward of that name, or else 1 where the end rewards reach their
    maximum), `calls`, `errors` (calls that were not in order), and every reward of weight 0 (a turn's summed
    over the episode).

    Raises:
        ContractError: no rewards, an unusable tool or reward, a missing task set.
    """

    kind: ClassVar[str] = "tool use"
    shared: ClassVar[tuple[str, ...]] = ("toolbox", "rewards")
    system_prompt: str | None = None
    """A first message for every task of this environment."""
    state: Any = None
    """Whatever your reset puts here for an episode (None before it runs); rewards get it by naming it."""
    answer: str = ""
    """Text of the last message without calls, once there is one."""
    hear_waits: bool = True
    """Whether `hear`, where overridden, really waits (for a model, say); False spares it the event loop."""
    _own: ClassVar[tuple[Toolbox, Rewards]]
    action: Message
    """The last assistant message."""

    def __init__(
        self,
        *,
        tasks: TaskSet | None = None,
        split: str | None = None,
        tools: Iterable[Callable[..., Any]] = (),
        rewards: Iterable[Callable[..., Any]] = (),
        system_prompt: str | None = None,
        max_turns: int | None = None,
        only_tools: Iterable[str] | None = None,
    ) -> None:
        own_tools, own_rewards = self._declared()
        added = [Tool.of(function) for function in tools]
        box = Toolbox([*own_tools, *added]) if added else own_tools
        self.toolbox = box if only_tools is None else box.only(only_tools)
        """The tools."""
        graded = [Reward.of(function) for function in rewards]
        self.rewards = Rewards([*own_rewards.all, *graded]) if graded else own_rewards
        """The rewards."""
        if not self.rewards.all:
            raise ContractError(
                f"{type(self).__name__} has no rewards: write one with @reward, or pass rewards=[…]"
            )
        if system_prompt is not None:
            self.system_prompt = system_prompt
        if max_turns is not None:
            self.max_turns = max_turns
        self.tools = self.toolbox.specs
        self.reward_range = self.rewards.total_range(self.max_turns)
        super().__init__(tasks=tasks, split=split)
        hearing_waits = self.hear_waits and type(self).hear is not ToolEnv.hear
        if not (self.toolbox.is_async or self.rewards.is_async or hearing_waits):
            self._inline_owner = ToolEnv

    @classmethod
    def _declared(cls) -> tuple[Toolbox, Rewards]:
        """What the class itself declares; made once, since a schema takes a millisecond."""
        if "_own" not in cls.__dict__:
            cls._own = Toolbox(class_tools(cls)), Rewards(class_rewards(cls))
        return cls._own

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """The task's prompt, after the system prompt if there is one."""
        prompt, info = super().reset(seed=seed, options=options)
        return (prompt if self.system_prompt is None else (system(self.system_prompt), *prompt)), info

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        super()._begin(seed, options)
        self.answer, self.state = "", None
        self.turns = self.calls = self.errors = 0
        self._turn_metrics: dict[str, float] = {}

    async def astep(self, action: Message) -> StepResult:
        """Answer the calls of a message, every one and in order; or take it as the answer and grade it."""
        self.action = action
        self.turns += 1
        observation: tuple[Message, ...] = ()
        over = self.max_turns is not None and self.turns >= self.max_turns
        if action.tool_calls:
            answers = []
            for call in action.tool_calls:
                result, in_order = await self.toolbox.answer(self, call)
                answers.append(result)
                self.calls += 1
                self.errors += not in_order
            observation = tuple(answers)
        else:
            self.answer = action.text
            observation, is_last = await self.hear(action)
            over = over or is_last
        if not over:
            if not self.rewards.turn:
                return observation, 0.0, False, False, {}
            paid, components = await self._grade(self.rewards.turn, self._turn_metrics)
            return observation, paid, False, False, {"reward_components": components}
        paid, components = await self._grade(self.rewards.turn, self._turn_metrics)
        metrics = dict(self._turn_metrics)
        end_paid, end_components = await self._grade(self.rewards.end, metrics)
        counts = {"calls": float(self.calls), "errors": float(self.errors)}
        low, high = self.rewards.end_range
        if low < high:  # else the end says nothing about success
            metrics.setdefault("success", end_components.get("success", float(math.isclose(end_paid, high))))
        info = {"reward_components": components | end_components, "metrics": metrics | counts}
        return observation, paid + end_paid, True, False, info

    async def hear(self, action: Message) -> tuple[Observation, bool]:  # noqa: ARG002 (what authors override)
        """What comes of a message without calls: new messages, and True if it ends the episode.

        Here it is the final answer. Where somebody speaks with the agent, override this to let them reply.
        """
        return (), True

    async def _grade(
        self, rewards: Iterable[Reward], metrics: dict[str, float]
    ) -> tuple[float, dict[str, float]]:
        """Weighted sum and unweighted components; values of weight 0 are added to `metrics`."""
        components: dict[str, float] = {}
        paid = 0.0
        for one in rewards:
            value = await one.value(self)
            if one.weight == 0:
                metrics[one.name] = metrics.get(one.name, 0.0) + value
            else:
                components[one.name] = value
                paid += one.weight * value
        return paid, components
