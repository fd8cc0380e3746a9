"""A task set of Prime Intellect's `verifiers` (its v1 interface, 0.4) as an environment. Extra: `verifiers`.

    env = VerifiersEnv(MyTaskset(MyConfig()))          # an object
    env = VerifiersEnv("my-taskset", config={…})       # or the id of an installed package

What is taken over: prompts, tools (`Toolset`, called in this process, with the state that they share with the
rewards), metrics, rewards with their weights, and stops that look at the trace. The conversation is that of
verifiers' plain chat: a message without tool calls ends it, and then the task's own functions grade it.

What is refused, by name, when the environment is made: tasks that need a container, hooks and rewards that need
verifiers' runtime, stops that look at requests. Environments in which several agents meet have no single policy to be
an environment for.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.errors import ContractError, GradingError, MissingExtra
from turngym.envs.messages import Message, system, user
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import ListTasks, Task
from turngym.envs.tools import Tool, Toolbox

try:
    from verifiers.v1 import types
    from verifiers.v1.configs.agent import AgentConfig
    from verifiers.v1.graph import MessageNode
    from verifiers.v1.mcp.server import _call_state
    from verifiers.v1.state import state_cls
    from verifiers.v1.task import Task as ForeignTask
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask
    from verifiers.v1.utils.decorators import discover_decorated
    from verifiers.v1.utils.loaders import load_taskset, taskset_config_type
except ImportError as missing:
    raise MissingExtra(
        f'verifiers is not installed ({missing}): pip install "turngym[verifiers]"'
    ) from missing

_MOST_TASKS: Final = 100_000


class VerifiersEnv(Env):
    """Play the tasks of a verifiers task set.

    Args:
        taskset: a `Taskset`, or the id of an installed one.
        config: fields of its configuration, where it is named by id.
        limit: the most tasks that are read; endless task sets need one.
        test_share: share of tasks that are for testing: a hash of each task's key decides.
        max_turns: a rule: messages after which the episode ends and is graded.
        reward_range: bounds of the weighted sum of its rewards, which verifiers does not declare.
        split: "train" or "test".

    Metrics: the task's own, and `success` where the range is bounded: 1 if its upper bound was reached.

    Raises:
        ContractError: something that the task set needs does not exist here; the message names it.
    """

    kind: ClassVar[str] = "adapter"
    shared: ClassVar[tuple[str, ...]] = ("_foreign", "toolbox")

    def __init__(
        self,
        taskset: Any,
        *,
        config: Mapping[str, Any] | None = None,
        limit: int | None = None,
        test_share: float = 0.2,
        max_turns: int | None = None,
        reward_range: tuple[float, float] = (-math.inf, math.inf),
        split: str | None = None,
    ) -> None:
        if isinstance(taskset, str):
            chosen = taskset_config_type(taskset).model_validate({"id": taskset, **(config or {})})
            taskset = load_taskset(chosen)
        if limit is None and not taskset.bounded:
            raise ContractError(f"{type(taskset).__name__} is endless: say limit=… tasks")
        self._foreign: dict[str, Any] = {}
        splits: dict[str, list[Task]] = {"train": [], "test": []}
        for foreign in taskset.take(limit or _MOST_TASKS):
            if not self._foreign:
                _refuse_what_is_missing(taskset, foreign)
            key = foreign.key
            if key in self._foreign:
                raise ContractError(f"two tasks of {type(taskset).__name__} have the key {key!r}")
            self._foreign[key] = (foreign, taskset)
            splits[_split_of(key, test_share)].append(_task(foreign, key))
        super().__init__(tasks=ListTasks(**splits), split=split)
        self.max_turns = max_turns
        self.reward_range = reward_range

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """A trace to be graded, and tool servers of this episode's own."""
        foreign, taskset = self._foreign[self.task.id]
        self._trace = _new_trace(foreign)
        self._seen = 0
        self._actions = 0
        self._servers = [
            *type(foreign).toolsets(foreign.config),
            *type(taskset).toolsets(taskset.config),
        ]
        for server in self._servers:
            await server.setup()
            await server.setup_task(foreign.data)
        self.toolbox = Toolbox(
            [
                _tool(number, server.server_name, function)
                for number, server in enumerate(self._servers)
                for function in discover_decorated(server, "tool")
            ]
        )
        self.tools = self.toolbox.specs
        self.action_space = ActionSpace(tools=self.tools)
        return await super().areset(seed=seed, options=options)

    async def astep(self, action: Message) -> StepResult:
        """Answer a message's calls; or grade the conversation that it ends."""
        self._actions += 1
        observation = tuple([(await self.toolbox.answer(self, call))[0] for call in action.tool_calls])
        self._record([*self.history[self._seen :], *observation])
        self._seen = len(self.history) + len(observation)
        over = not action.tool_calls or self._actions == self.max_turns or await self._is_stopped()
        if not over:
            return observation, 0.0, False, False, {}
        paid, components, metrics = await self._graded()
        return observation, paid, True, False, {"reward_components": components, "metrics": metrics}

    def _record(self, messages: Iterable[Message]) -> None:
        for message in messages:
            parent = len(self._trace.nodes) - 1
            self._trace.nodes.append(
                MessageNode(
                    parent=parent if parent >= 0 else None,
                    message=_foreign_message(message),
                    sampled=message.role == "assistant",
                )
            )

    async def _is_stopped(self) -> bool:
        foreign, _ = self._foreign[self.task.id]
        for stop in foreign.hooks("stop"):
            answer = stop(self._trace)
            if await answer if inspect.isawaitable(answer) else answer:
                self._trace.stop_condition = stop.__name__
                return True
        return False

    async def _graded(self) -> tuple[float, dict[str, float], dict[str, float]]:
        """Weighted sum, the rewards by name (unweighted), and the metrics.

        Raises:
            GradingError: a function of the task raised.
        """
        foreign, _ = self._foreign[self.task.id]
        self._trace.is_completed = self._trace.ok = True
        try:
            await foreign.score(self._trace)
        except Exception as error:
            raise GradingError(f"grading of task {self.task.id} failed: {error}") from error
        rewards = {name: one for name, one in self._trace.rewards.items() if one is not None}
        paid = float(sum(one.value for one in rewards.values()))
        low, high = self.reward_range
        if not low - 1e-9 <= paid <= high + 1e-9:
            raise GradingError(f"task {self.task.id} paid {paid:g}, outside of [{low:g}, {high:g}]")
        metrics = {name: float(value) for name, value in self._trace.metrics.items() if value is not None}
        if math.isfinite(high):
            metrics.setdefault("success", float(math.isclose(paid, high, abs_tol=1e-9)))
        return paid, {name: float(one.score) for name, one in rewards.items()}, metrics


def _refuse_what_is_missing(taskset: Any, foreign: Any) -> None:
    kind = type(foreign)
    missing = []
    if kind.NEEDS_CONTAINER or foreign.data.image is not None:
        missing.append("a container")
    missing += [
        f"verifiers' runtime, for its method {name!r}"
        for name in ("setup", "finalize")
        if getattr(kind, name) is not getattr(ForeignTask, name)
    ]
    for hook in ("metric", "reward"):
        for function in foreign.hooks(hook):
            parameter = inspect.signature(function).parameters.get("runtime")
            if parameter is not None and parameter.default is parameter.empty:
                missing.append(f"verifiers' runtime, for the {hook} {function.__name__!r}")
    for stop in foreign.hooks("stop"):
        if "Trace" not in str(next(iter(inspect.signature(stop).parameters.values())).annotation):
            missing.append(f"requests of verifiers' own, for the stop {stop.__name__!r}")
    if missing:
        raise ContractError(f"{type(taskset).__name__} needs what is not here: {'; '.join(missing)}")


def _split_of(key: str, test_share: float) -> str:
    place = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
    return "test" if place < test_share else "train"


def _task(foreign: Any, key: str) -> Task:
    data = foreign.data
    prompt = [] if data.system_prompt is None else [system(data.system_prompt)]
    if isinstance(data.prompt, str):
        prompt.append(user(data.prompt))
    else:
        prompt += [_own_message(message) for message in data.prompt or ()]
    # Everything but the prompt may be an answer: it is hidden.
    hidden = data.model_dump(mode="json", exclude={"prompt", "system_prompt", "idx"}, exclude_defaults=True)
    return Task(id=key, prompt=tuple(prompt), target=hidden)


def _new_trace(foreign: Any) -> Any:
    task = TraceTask(type=type(foreign).__name__, data=foreign.data, key=foreign.key, hash=foreign.hash)
    state = state_cls(type(foreign))()
    trace: Any = Trace(task=task, agent=AgentInfo(config=AgentConfig()), state=state)
    return trace


def _tool(number: int, prefix: str, function: Callable[..., Any]) -> Tool:
    """A function of the episode's tool server of that number, under the name that verifiers shows."""
    own = Tool.of(function)
    method = function.__name__
    name = getattr(function, "tool_name", None) or method
    shown = own.spec.function.model_copy(update={"name": f"{prefix}_{name}" if prefix else name})

    async def call(env: VerifiersEnv, /, **arguments: Any) -> Any:
        token = _call_state.set(env._trace.state)
        try:
            result = getattr(env._servers[number], method)(**arguments)
            return await result if inspect.isawaitable(result) else result
        finally:
            _call_state.reset(token)

    return Tool(
        own.spec.model_copy(update={"function": shown}), call, own.read, takes_env=True, is_async=True
    )


def _foreign_message(message: Message) -> Any:
    if message.role == "assistant":
        calls = [
            types.ToolCall(id=call.id, name=call.name, arguments=call.function.arguments)
            for call in message.tool_calls
        ]
        return types.AssistantMessage(
            content=message.content, reasoning_content=message.reasoning_content, tool_calls=calls or None
        )
    if message.role == "tool":
        return types.ToolMessage(
            tool_call_id=message.tool_call_id or "", content=message.text, name=message.name
        )
    kind = types.SystemMessage if message.role == "system" else types.UserMessage
    return kind(content=message.text)


def _own_message(message: Any) -> Message:
    content = message.content
    if content is not None and not isinstance(content, str):
        raise ContractError("a prompt holds images, which turngym's messages do not")
    return Message.from_wire({"role": message.role, "content": content})
