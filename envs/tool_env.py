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
from typing import Any, ClassVar, TypeVar

from turngym.envs.env import Env, Observation, ResetResult, StepResult
from turngym.envs.episode import EpisodeView, ToolUse
from turngym.envs.errors import ContractError
from turngym.envs.group_rewards import VIEW_KEY
from turngym.envs.messages import Message, assistant, system
from turngym.envs.rewards import Reward, Rewards, class_rewards
from turngym.envs.tasks import TaskSet
from turngym.envs.tool_classes import fresh, tools_of
from turngym.envs.tools import Tool, Toolbox, class_tools

Kind = TypeVar("Kind")


class ToolEnv(Env):
    """A conversation with tools that ends with the first message that calls none.

    Args:
        tasks: default: the class's own.
        split: default "train".
        tools: more tools, as functions.
        tool_classes: more classes whose methods are tools, beside those of the class attribute. Each episode
            has fresh objects of them; a fork copies them.
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
    tool_classes: tuple[type, ...] = ()
    """Classes whose methods are tools; each episode has fresh objects of them (`tool_object`)."""
    answer: str = ""
    """Text of the last message without calls, once there is one."""
    hear_waits: bool = True
    """Whether `hear`, where overridden, really waits (for a model, say); False spares it the event loop."""
    _own: ClassVar[tuple[Toolbox, Rewards]]
    action: Message = assistant()
    """The last assistant message; an empty one before the first."""

    def __init__(
        self,
        *,
        tasks: TaskSet | None = None,
        split: str | None = None,
        tools: Iterable[Callable[..., Any]] = (),
        tool_classes: Iterable[type] = (),
        rewards: Iterable[Callable[..., Any]] = (),
        system_prompt: str | None = None,
        max_turns: int | None = None,
        only_tools: Iterable[str] | None = None,
    ) -> None:
        own_tools, own_rewards = self._declared()
        added = [Tool.of(function) for function in tools]
        if more := tuple(tool_classes):
            added += [one for cls in more for one in tools_of(cls)]
            self.tool_classes = (*self.tool_classes, *more)
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
            of_classes = [one for kind in cls.tool_classes for one in tools_of(kind)]
            cls._own = Toolbox([*class_tools(cls), *of_classes]), Rewards(class_rewards(cls))
        return cls._own

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: tools and rewards that the class declares are found there again."""
        own = self._declared()
        return {
            key: value
            for key, value in self.__dict__.items()
            if not any(value is declared for declared in own)
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        toolbox, rewards = self._declared()
        self.__dict__.update({"toolbox": toolbox, "rewards": rewards} | state)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """The task's prompt, after the system prompt if there is one."""
        prompt, info = super().reset(seed=seed, options=options)
        return (prompt if self.system_prompt is None else (system(self.system_prompt), *prompt)), info

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        super()._begin(seed, options)
        self.answer, self.state = "", None
        self.turns = self.calls = self.errors = 0
        self._turn_metrics: dict[str, float] = {}
        self._in_order: list[bool] = []
        self._results: list[Message] = []
        self._paid: list[float] = []
        self._objects = {kind: fresh(kind, self) for kind in self.tool_classes}

    @property
    def group_rewards(self) -> tuple[Reward, ...]:
        """The rewards that compare the episodes of a group; training and evaluation pay them."""
        return self.rewards.group

    @property
    def trajectory(self) -> EpisodeView:
        """The episode so far, for rewards."""
        # While a turn is graded, its results are in no history yet.
        is_in_hand = bool(self.history) and self.history[-1] is self.action
        messages = (*self.history, *self._results) if is_in_hand else tuple(self.history)
        # A prompt may show calls too, as examples: only the latest are this episode's.
        count = len(self._in_order)
        calls = [call for message in messages for call in message.tool_calls][-count:]
        results = [message for message in messages if message.role == "tool"][-count:]
        return EpisodeView(
            messages=messages,
            tool_uses=tuple(map(ToolUse, calls, results, self._in_order)),
            turn=self.turns,
            paid=tuple(self._paid),
            answer=self.answer,
        )

    def tool_object(self, kind: type[Kind]) -> Kind:
        """This episode's object of a tool class, with its state: for rewards, and for tools that work together.

        Raises:
            KeyError: it is no tool class of this environment.
        """
        found: Kind = self._objects[kind]
        return found

    async def astep(self, action: Message) -> StepResult:
        """Answer the calls of a message, every one and in order; or take it as the answer and grade it."""
        self.action = action
        self.turns += 1
        observation: list[Message] = []
        for call in action.tool_calls:
            result, in_order = await self.toolbox.answer(self, call)
            observation.append(result)
            self._in_order.append(in_order)
            self.calls += 1
            self.errors += not in_order
        is_over = self.max_turns is not None and self.turns >= self.max_turns
        if not action.tool_calls:
            self.answer = action.text
            said, is_last = await self.hear(action)
            observation += said
            is_over = is_over or is_last
        self._results = observation
        if not (is_over or self.rewards.turn):
            self._paid.append(0.0)
            return tuple(observation), 0.0, False, False, {}
        paid, components = await self._grade(self.rewards.turn, self._turn_metrics)
        info: dict[str, Any] = {"reward_components": components}
        if is_over:
            paid += await self._grade_end(info)
        self._paid.append(paid)
        if is_over and self.rewards.group:
            info[VIEW_KEY] = self.trajectory
        return tuple(observation), paid, is_over, False, info

    async def _grade_end(self, info: dict[str, Any]) -> float:
        """What the end pays; its components and the episode's metrics are added to `info`."""
        metrics = dict(self._turn_metrics)
        paid, components = await self._grade(self.rewards.end, metrics)
        low, high = self.rewards.end_range
        if low < high:  # else the end says nothing about success
            metrics.setdefault("success", components.get("success", float(math.isclose(paid, high))))
        info["reward_components"] |= components
        info["metrics"] = metrics | {"calls": float(self.calls), "errors": float(self.errors)}
        return paid

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
