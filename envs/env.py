"""The environment: `gymnasium.Env` over conversations, with the bookkeeping that every author needs.

An author subclasses `Env`, gives it tasks, and writes `step` *or* `astep` (and, where the prompt is not
simply the task's, `reset` or `areset`) in Gymnasium's form:

    class Echo(Env):
        tasks = ListTasks(train=[Task(id="hi", prompt=(user("Say hi"),), target="hi")])

        def step(self, action: Message) -> StepResult:
            return (), float(action.text == self.task.target), True, False, {}

`action` is always an assistant message by then, `self.task` is chosen and `self.np_random` seeded before
`reset` runs.
"""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self

import gymnasium

from turngym.envs import faces
from turngym.envs.errors import ContractError, EpisodeOver, UnknownTask
from turngym.envs.figures import checked_metrics, checked_reward
from turngym.envs.messages import Message, ToolSpec, tool_result
from turngym.envs.policies import Optimum, ReferencePolicy, default_policies
from turngym.envs.spaces import ActionSpace, MessagesSpace, as_action
from turngym.envs.tasks import Task, TaskSet, draw

Observation = tuple[Message, ...]
ResetResult = tuple[Observation, dict[str, Any]]
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class _Phase(enum.Enum):
    IDLE = "no episode is running: call reset first"
    RUNNING = "an episode is running"
    STEPPING = "the last step has not finished, or it failed: reset, or make a new environment"
    OVER = "the episode is over: call reset"
    CLOSED = "the environment is closed: make a new one"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An episode's state at one moment; `Env.restore` takes it, any number of times."""

    owner: Env
    """The environment that it was taken from."""
    attributes: Mapping[str, Any]
    """Copies of the environment's attributes."""


class Env(gymnasium.Env[Observation, Any]):
    """A conversation about a task: an observation is the new messages, an action the assistant's message.

    Args:
        tasks: where the questions come from; default: the class's own.
        split: which split to draw from; default "train", or the first where there is none of that name.

    Raises:
        ContractError: the class has no tasks, or writes neither `step` nor `astep`.
        UnknownTask: the task set has no such split.
    """

    kind: ClassVar[str] = "text"
    """What sort of environment this is, for listings."""
    blocking: ClassVar[bool] = False
    """True if its step does slow blocking work, so that rollouts put it in a thread."""
    shared: ClassVar[tuple[str, ...]] = (
        "tasks",
        "task",
        "spec",
        "tools",
        "observation_space",
        "action_space",
    )
    """Attributes that forks share instead of copying (clients, big tables); added to those of the bases."""
    option_names: ClassVar[frozenset[str]] = frozenset({"task"})
    """What `reset(options=…)` understands."""
    policies: ClassVar[Mapping[str, ReferencePolicy]] = {}
    """Reference policies by name; a static method `expert` is one; "null" and "random" have defaults."""

    tasks: TaskSet
    """Where the questions come from."""
    tools: tuple[ToolSpec, ...] = ()
    """The tools on offer."""
    max_turns: int | None = None
    """A rule of the task, where there is one: the episode terminates after that many actions."""
    reward_range: tuple[float, float] = (-math.inf, math.inf)
    """Bounds of an episode's total reward."""
    answer_formats: tuple[str, ...] = ()
    """Where an answer counts although other text is around it: regular expressions for the whole text, the answer
    in a group `(?P<answer>…)`. `check` attacks with such texts, and lets those pass that are declared here."""
    is_stochastic: bool = False
    """True where luck decides too: the expert then need not succeed every time, but earn `optimum` on average."""
    task: Task
    """The current episode's task."""

    _reset_owner: ClassVar[type]
    _step_owner: ClassVar[type]
    _close_owner: ClassVar[type]
    _reset_waits: bool = False
    _step_waits: bool = False
    _close_waits: bool = False
    # The class whose `astep` never waits in this instance (a tool environment without async tools), if any.
    _inline_owner: type | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        faces.install(cls)

    def __init__(self, *, tasks: TaskSet | None = None, split: str | None = None) -> None:
        if tasks is not None:
            self.tasks = tasks
        if getattr(self, "tasks", None) is None:
            raise ContractError(
                f"{type(self).__name__} has no tasks: set the class attribute or pass tasks=…"
            )
        if self._step_owner is Env:
            raise ContractError(f"{type(self).__name__} writes neither step nor astep")
        splits = self.tasks.splits
        if split is None:
            split = "train" if "train" in splits else splits[0]
        elif split not in splits:
            raise UnknownTask(f"no split {split!r}; this environment has {', '.join(splits)}")
        self.split: str = split
        self.observation_space = MessagesSpace()
        self.action_space = ActionSpace(tools=self.tools)
        self.history: list[Message] = []
        self._phase = _Phase.IDLE

    @property
    def id(self) -> str:
        """The id under which it was made; the class's name if it was not made by id."""
        return self.spec.id if self.spec is not None else type(self).__name__

    @property
    def native_async(self) -> bool:
        """True if the author's code may really wait in a loop: await `areset`, `astep` and `aclose`."""
        step_waits = self._step_waits and self._inline_owner is not self._step_owner
        return step_waits or self._reset_waits or self._close_waits

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Start an episode.

        Args:
            seed: alone decides everything random that follows, and the task unless `options` names one. None
                goes on with this environment's own generator, as in Gymnasium.
            options: {"task": task id or Task}.

        Returns:
            The opening messages; info with task_id, task_hash, tools, limits, and anchor where the
            environment has one.

        Raises:
            UnknownTask: no task of that id.
            ValueError: an option that is not understood.
        """
        if self._reset_owner is not Env:  # called through super() by an author's own reset
            return self.task.prompt, {}
        self._begin(seed, options)
        return self._opened((self.task.prompt, {}))

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """`reset`, awaited."""
        return Env.reset(self, seed=seed, options=options)

    def step(self, action: Any) -> StepResult:  # noqa: ARG002 (what authors override)
        """Take one action: text, an assistant message, or OpenAI's dictionary form of it.

        Returns:
            New messages, reward, terminated, truncated (never both), and info with reward_components
            (unweighted, paid in this step), metrics (at the end), and anchor where the environment has one.

        Raises:
            InvalidAction: not an assistant message.
            EpisodeOver: no episode is running.
            InvalidReward: a reward is not a finite number in its range, or a metric is out of bounds (`success`
                is a share).
            GradingError: the verifier failed; the episode has no score.
        """
        raise ContractError(f"{type(self).__name__} writes neither step nor astep")

    async def astep(self, action: Any) -> StepResult:
        """`step`, awaited."""
        return Env.step(self, action)

    def close(self) -> None:
        """Release what the environment holds. Safe to call twice."""
        if self._close_owner is Env:
            self._closing()

    async def aclose(self) -> None:
        """`close`, awaited."""
        Env.close(self)

    def optimum(self, task: Task) -> Optimum:  # noqa: ARG002 (what authors override)
        """What the best policy earns on a task, exactly; written by authors of environments that are
        `is_stochastic`."""
        raise ContractError(f"{type(self).__name__} does not say what the best policy earns")

    def snapshot(self) -> Snapshot:
        """The episode's state now: deep copies, but for what is `shared` and for messages."""
        return Snapshot(self, self._copy_of(self.__dict__, owner=self))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back (or over) to a state; the same actions then give the same results.

        Raises:
            TypeError: the snapshot is of another class of environment.
        """
        if type(snapshot.owner) is not type(self):
            raise TypeError(
                f"a snapshot of {type(snapshot.owner).__name__} does not fit {type(self).__name__}"
            )
        attributes = self._copy_of(snapshot.attributes, owner=snapshot.owner)
        self.__dict__.clear()
        self.__dict__.update(attributes)

    def fork(self) -> Self:
        """An independent environment in the same state: the same actions give the same results."""
        twin = object.__new__(type(self))
        twin.__dict__.update(twin._copy_of(self.__dict__, owner=self))
        return twin

    def _copy_of(self, attributes: Mapping[str, Any], *, owner: Env) -> dict[str, Any]:
        """Attributes of `owner` copied for `self`: references to the owner become references to `self`."""
        kept = {name for cls in type(self).__mro__ for name in cls.__dict__.get("shared", ())}
        memo: dict[int, Any] = {id(attributes[name]): attributes[name] for name in kept if name in attributes}
        memo.update((id(message), message) for message in attributes.get("history", ()))
        memo[id(owner)] = self
        return {name: copy.deepcopy(value, memo) for name, value in attributes.items()}

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        """What comes before an author's reset: generator, task, an empty history."""
        if self._phase is _Phase.CLOSED:
            raise EpisodeOver(_Phase.CLOSED.value)
        options = options or {}
        if unknown := options.keys() - self.option_names:
            raise ValueError(
                f"unknown option {min(unknown)!r}; reset understands {', '.join(sorted(self.option_names))}"
            )
        self._phase = _Phase.IDLE
        super().reset(seed=seed)
        choice = options.get("task")
        if isinstance(choice, Task):
            self.task = choice
        elif choice is not None:
            self.task = self.tasks.get(choice)
        else:
            self.task = draw(
                self.tasks, self.split, seed if seed is not None else int(self.np_random.integers(2**62))
            )
        self.history = []

    def _opened(self, result: ResetResult) -> ResetResult:
        """What comes after an author's reset: the common info, and the first messages of the history."""
        try:
            observation, own = result
        except (TypeError, ValueError):
            self._broken(f"reset must return (messages, info), not {result!r}")
        observation = self._checked_messages(observation)
        self.history.extend(observation)
        self._phase = _Phase.RUNNING
        common = {
            "task_id": self.task.id,
            "task_hash": self.task.content_hash,
            "tools": self.tools,
            "limits": self.task.limits,
        }
        return observation, common | own

    def _accept(self, action: Any) -> Message:
        """What comes before an author's step: is there an episode, and is this an action?"""
        if self._phase is not _Phase.RUNNING:
            raise EpisodeOver(self._phase.value)
        message = as_action(action)
        self._phase = _Phase.STEPPING
        self.history.append(message)
        return message

    def _conclude(self, message: Message, result: StepResult) -> StepResult:
        """What comes after an author's step: the contract of the five values."""
        try:
            observation, reward, terminated, truncated, info = result
        except (TypeError, ValueError):
            self._broken(f"step must return (messages, reward, terminated, truncated, info), not {result!r}")
        if terminated and truncated:
            self._broken(
                "a step set both flags: a rule of the task terminates, a limit of the runner truncates"
            )
        observation = self._checked_messages(observation)
        if message.tool_calls and not (self.tools or _are_answered(message, observation)):
            observation = (*_no_tools(message), *observation)
        reward = checked_reward(reward, self.id)
        info.setdefault("reward_components", {})
        if terminated or truncated:
            checked_metrics(info.setdefault("metrics", {}), self.id)
            self._phase = _Phase.OVER
        else:
            self._phase = _Phase.RUNNING
        self.history.extend(observation)
        return observation, reward, bool(terminated), bool(truncated), info

    def _closing(self) -> bool:
        """True the first time: only then the author's close runs."""
        first = self._phase is not _Phase.CLOSED
        self._phase = _Phase.CLOSED
        return first

    def _checked_messages(self, observation: Any) -> Observation:
        messages = observation if type(observation) is tuple else tuple(observation)
        for message in messages:
            if not isinstance(message, Message):
                self._broken(
                    f"an observation is a tuple of messages; this one holds {type(message).__name__}"
                )
        return messages

    def _broken(self, what: str) -> NoReturn:
        raise ContractError(f"{self.id}: {what}")


Env._reset_owner = Env._step_owner = Env._close_owner = Env


def policies_of(env: Env) -> dict[str, ReferencePolicy]:
    """All reference policies of an environment, the default "null" and "random" included."""
    expert = getattr(env, "expert", None)
    own = {} if expert is None else {"expert": expert}
    return default_policies(env.action_space) | own | dict(env.policies)


def _are_answered(message: Message, observation: Observation) -> bool:
    """True if the author has answered a message's calls already."""
    asked = {call.id for call in message.tool_calls}
    return any(answer.role == "tool" and answer.tool_call_id in asked for answer in observation)


def _no_tools(message: Message) -> Observation:
    # An unanswered call makes many servers reject the conversation: answer all, even where there is nothing
    # to call.
    return tuple(tool_result(call, "Error: there are no tools here.") for call in message.tool_calls)
