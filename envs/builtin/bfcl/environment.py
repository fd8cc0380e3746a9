"""BFCLMultiTurn: a conversation in which a user asks for one thing after the other, and functions do them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from turngym.envs.builtin.bfcl.data import CATEGORIES, functions_of, task_set
from turngym.envs.builtin.bfcl.world import World, parse_call
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant, user
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import Task
from turngym.envs.tools import Tool, Toolbox

MOST_STEPS: Final = 20
"""Messages with calls that the agent has for one request of the user, as in the benchmark."""
_ADDED: Final = "These functions are available from now on:\n{functions}\nPlease try again with them."


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """The reference calls of a request in one message, then a word that it is done."""
    request = sum(message.role == "user" for message in history) - 1
    calls = [parse_call(text) for text in task.target[request]]
    if history[-1].role == "tool" or not calls:
        return assistant("Done." if calls else "I cannot do that yet.")
    return assistant(
        None,
        *(
            ToolCall.of(
                call.name,
                _named(task, call.name, call.positional) | dict(call.named),
                id=f"call_{request}_{n}",
            )
            for n, call in enumerate(calls)
        ),
    )


def random_calls(task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Functions of the task with arguments of the reference solution or of nobody; now and then a word."""
    if rng.random() < 0.3:
        return assistant(str(rng.choice(["Done.", "", "Which file do you mean?"])))
    known = [parse_call(text) for turn in task.target for text in turn]
    specs = [spec for name in task.metadata["classes"] for spec in functions_of(name)]
    calls = []
    for number in range(int(rng.integers(1, 4))):
        if known and rng.random() < 0.5:
            call = known[int(rng.integers(len(known)))]
            name, arguments = call.name, _named(task, call.name, call.positional) | dict(call.named)
        else:
            spec = specs[int(rng.integers(len(specs)))]
            name, arguments = spec.name, {}
        for key in _parameters(task, name):
            if rng.random() < 0.3:
                arguments[key] = [0, -1, 1e300, "", "nobody", None, [], {"a": [1]}, True][
                    int(rng.integers(9))
                ]
        calls.append(ToolCall.of(name, json.dumps(arguments), id=f"call_{len(history)}_{number}"))
    return assistant(None, *calls)


def _named(task: Task, function: str, positional: Sequence[Any]) -> dict[str, Any]:
    """Positional arguments under the names of their parameters."""
    return dict(zip(_parameters(task, function), positional, strict=False))


def _parameters(task: Task, function: str) -> list[str]:
    for name in task.metadata["classes"]:
        for spec in functions_of(name):
            if spec.name == function:
                return list(spec.function.parameters.get("properties", {}))
    return []


class BFCLMultiTurn(Env):
    """Do what a user asks for, request after request, by calling functions of a stateful world.

    A message with calls is answered with their results. One without calls ends the request: the user says the
    next, or nothing more, which ends the episode. At the end of each request the world is compared with that of
    the reference solution as the benchmark does it: all public state is equal; what the reference calls of this
    request returned has been returned to the agent too, in this request or before, in any order; and where the
    reference makes calls, the agent made some. The reward is 1 if that held for every request, at the end. A
    21st message with calls within one request ends the episode with 0.

    Where the category withholds functions, they are offered one request later, in a message of the user's; the
    list of tools stays as it was, so that the conversation so far stays as it was.

    Metrics: `success`; `requests` (share of requests before the first that failed); `calls`; `errors` (calls that
    were not in order).

    Args:
        categories: some of base, miss_func, miss_param, long_context; default: all.
        split: "train" or "test". The four variants of a conversation are in the same split.

    Raises:
        MissingExtra: `bfcl-eval` is not installed.
        ValueError: a category that there is not.
    """

    kind: ClassVar[str] = "tool use"
    shared: ClassVar[tuple[str, ...]] = ("toolbox",)
    reward_range = (0.0, 1.0)
    policies: ClassVar = {"expert": expert, "random": random_calls}

    def __init__(self, *, categories: Iterable[str] = CATEGORIES, split: str | None = None) -> None:
        super().__init__(tasks=task_set(tuple(categories)), split=split)
        self._offer(self.tasks.at(self.split, 0), withheld=True)

    def _offer(self, task: Task, *, withheld: bool) -> None:
        """The toolbox of a task, with or without what is withheld at first."""
        hidden = (
            {name for names in task.metadata["withheld"].values() for name in names} if withheld else set()
        )
        hidden |= set(task.metadata["excluded"])
        self.toolbox = _toolbox(tuple(task.metadata["classes"]), frozenset(hidden))
        if withheld:
            self.tools = self.toolbox.specs
            self.action_space = ActionSpace(tools=self.tools)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Two worlds in the same state: the agent's, and the reference solution's."""
        task = self.task
        self._offer(task, withheld=True)
        long_context = task.metadata["category"] == "long_context"
        self._world, self._reference = (
            World(task.metadata["classes"], task.metadata["initial"], long_context=long_context)
            for _ in range(2)
        )
        self._returned: list[str] = []
        self._request = self._steps = self._right = self._calls = self._errors = 0
        self._called = self._failed = False
        return super().reset(seed=seed, options=options)

    async def astep(self, action: Message) -> StepResult:
        """Answer the calls of a message; or take the request as done."""
        if not action.tool_calls:
            return self._next_request()
        observation = []
        for call in action.tool_calls:
            result, in_order = await self.toolbox.answer(self, call)
            observation.append(result)
            self._calls += 1
            self._errors += not in_order
        self._steps += 1
        if self._steps > MOST_STEPS:
            self._failed = True
            return self._end(tuple(observation))
        return tuple(observation), 0.0, False, False, {}

    def called(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a function of the agent's world."""
        result = self._world.call(name, named=arguments)
        self._called = True
        self._returned.append(result)
        return result

    def _next_request(self) -> StepResult:
        self._failed = self._failed or not self._is_right()
        self._right += not self._failed
        self._request += 1
        self._steps, self._called = 0, False
        turns = self.task.metadata["turns"]
        if self._request == len(turns):
            return self._end(())
        said = turns[self._request]
        if added := self.task.metadata["withheld"].get(str(self._request)):
            self._offer(self.task, withheld=False)
            specs = [spec.wire()["function"] for spec in self.toolbox.specs if spec.name in added]
            listed = _ADDED.format(functions=json.dumps(specs, ensure_ascii=False))
            said = listed if said is None else f"{listed}\n{said}"
        return (user(said or "Please go on."),), 0.0, False, False, {}

    def _is_right(self) -> bool:
        """Whether the request that has just ended was done as the reference does it."""
        calls = [parse_call(text) for text in self.task.target[self._request]]
        expected = [self._reference.call(call.name, call.positional, call.named) for call in calls]
        if not calls:
            return True
        left = list(self._returned)
        for result in expected:
            if result not in left:
                return False
            left.remove(result)
        return self._called and self._world.has_same_state(self._reference)

    def _end(self, observation: tuple[Message, ...]) -> StepResult:
        paid = float(not self._failed)
        metrics = {
            "success": paid,
            "requests": self._right / len(self.task.metadata["turns"]),
            "calls": float(self._calls),
            "errors": float(self._errors),
        }
        return observation, paid, True, False, {"reward_components": {"correct": paid}, "metrics": metrics}


@functools.lru_cache(maxsize=512)
def _toolbox(classes: tuple[str, ...], hidden: frozenset[str]) -> Toolbox:
    """The functions of some classes as tools of the environment that is called."""
    specs = [spec for name in classes for spec in functions_of(name) if spec.name not in hidden]
    return Toolbox([Tool(spec, _caller(spec), _read, takes_env=True, is_async=False) for spec in specs])


def _caller(spec: ToolSpec) -> Callable[..., str]:
    def call(env: BFCLMultiTurn, /, **arguments: Any) -> str:
        return env.called(spec.name, arguments)

    return call


def _read(text: str) -> dict[str, Any]:
    """Arguments as the model wrote them; whether they fit is the function's to say, as in the benchmark."""
    arguments = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError("they must be an object.")
    return arguments
