"""Rewards as named functions with a weight and a declared range; they take what they name.

    @reward(weight=0.5)
    def correct(answer: str, target: str) -> float:
        return float(answer.strip() == target)

A reward of weight 0 is a metric: it is computed and reported, and pays nothing.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, get_args, overload

from turngym.envs.errors import ContractError, EnvError, GradingError, InvalidReward
from turngym.envs.group_rewards import GROUP_SOURCES

Function = TypeVar("Function", bound=Callable[..., Any])
When = Literal["end", "turn"]

_MARK = "__turngym_reward__"

# What a reward function may name, and where it comes from in the environment that is being graded.
_SOURCES: dict[str, Callable[[Any], Any]] = {
    "task": lambda env: env.task,
    "target": lambda env: env.task.target,
    "answer": lambda env: env.answer,
    "action": lambda env: env.action,
    "history": lambda env: tuple(env.history),
    "trajectory": lambda env: env.trajectory,
    "state": lambda env: env.state,
    "env": lambda env: env,
}


@dataclass(frozen=True, slots=True)
class RewardOptions:
    """What `@reward` was told."""

    weight: float = 1.0
    """Factor in the environment's reward; 0 makes it a metric."""
    range: tuple[float, float] = (0.0, 1.0)
    """Least and greatest value that the function may return, before weighting."""
    name: str | None = None
    """Name in reports; default: the function's."""
    when: When = "end"
    """Paid once at the end, or in every turn."""
    group: bool = False
    """True: it compares the episodes of a group, so whoever holds the group computes it (`group_rewards`)."""


@overload
def reward(function: Function, /) -> Function: ...
@overload
def reward(
    *,
    weight: float = 1.0,
    range: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
    when: When = "end",
    group: bool = False,
) -> Callable[[Function], Function]: ...
def reward(
    function: Function | None = None,
    /,
    *,
    weight: float = 1.0,
    range: tuple[float, float] = (0.0, 1.0),
    name: str | None = None,
    when: When = "end",
    group: bool = False,
) -> Function | Callable[[Function], Function]:
    """Mark a function or method as a reward; it stays the function it was.

    Args:
        function: `def` or `async def`; its parameters name what it needs: task, target (the task's), answer
            (text of the final message; "" if there is none), action (the last assistant message), history
            (all messages up to the action), trajectory (an `EpisodeView` of the episode so far: messages, calls
            with their results, rewards paid), state (the environment's `state`), env. A group reward names
            trajectories, answers, rewards (lists, one entry per episode of the group), task, target.
        weight: factor in the environment's reward; 0 makes it a metric.
        range: least and greatest value before weighting; anything else raises InvalidReward.
        name: default: the function's.
        when: "end" pays once, when the episode terminates; "turn" pays in every turn.
        group: it compares the episodes of a group and returns a list, one value per episode. It is a function
            or a static method, computed when the last episode of the group is over, and paid on the last
            action of each.
    """
    options = RewardOptions(weight, range, name, when, group)

    def mark(marked: Function) -> Function:
        setattr(marked.__func__ if isinstance(marked, staticmethod) else marked, _MARK, options)
        return marked

    return mark if function is None else mark(function)


@dataclass(frozen=True, slots=True)
class Reward:
    """A reward function ready to grade an episode."""

    name: str
    """Its name in reports."""
    weight: float
    """Factor in the environment's reward; 0 makes it a metric."""
    range: tuple[float, float]
    """Least and greatest value before weighting."""
    when: When
    """Paid once at the end, or in every turn."""
    group: bool
    """True if it compares the episodes of a group (`group_rewards`); the environment then only declares it."""
    function: Callable[..., Any]
    """The function; it takes the environment first where `takes_env` is True."""
    needs: tuple[tuple[str, Callable[[Any], Any]], ...]
    """The parameters by name, with where each comes from."""
    takes_env: bool
    """True for a method of the environment."""
    is_async: bool
    """True if it must be awaited."""

    @classmethod
    def of(cls, function: Callable[..., Any], *, takes_env: bool = False) -> Reward:
        """A reward from a function, marked or not.

        Raises:
            ContractError: it names something that nobody provides, or its weight or range is not made of
                numbers.
        """
        options: RewardOptions = getattr(function, _MARK, RewardOptions())
        name = options.name or function.__name__
        low, high = options.range
        if not (low <= high and math.isfinite(options.weight)):
            raise ContractError(
                f"reward {name}: weight {options.weight} and range {options.range} make no sense"
            )
        if options.when not in get_args(When):
            raise ContractError(f"reward {name}: when is 'end' or 'turn', not {options.when!r}")
        if options.group and (takes_env or options.when == "turn"):
            raise ContractError(
                f"reward {name} compares whole episodes: write it as a function or a static method, paid at the end"
            )
        needs = []
        sources: Mapping[str, Callable[[Any], Any]] = GROUP_SOURCES if options.group else _SOURCES
        for parameter in list(inspect.signature(function).parameters.values())[int(takes_env) :]:
            if parameter.name in sources:
                needs.append((parameter.name, sources[parameter.name]))
            elif parameter.default is parameter.empty:
                known = ", ".join(sources)
                raise ContractError(f"reward {name} names {parameter.name!r}; it can have {known}")
        return cls(
            name, float(options.weight), (float(low), float(high)), options.when, options.group,
            function, tuple(needs), takes_env, inspect.iscoroutinefunction(function),
        )  # fmt: skip

    def __deepcopy__(self, memo: object) -> Reward:
        return self  # nothing in it changes

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"the reward {self.name!r} holds code and is not pickled: send the environment's id and arguments, "
            "and make it again"
        )

    async def value(self, env: Any) -> float:
        """Grade the environment's episode as it stands. Waits only for async functions.

        Raises:
            InvalidReward: the value is not a finite number in the declared range.
            GradingError: the function failed, so there is no score.
        """
        try:
            named = {name: source(env) for name, source in self.needs}
            value = self.function(env, **named) if self.takes_env else self.function(**named)
            if self.is_async:
                value = await value
        except EnvError:
            raise
        except Exception as error:
            raise GradingError(
                f"reward {self.name!r} of {env.id} failed: {type(error).__name__}: {error}"
            ) from error
        return self.checked(value, env.id)

    def checked(self, value: Any, source: str) -> float:
        """A value as a number in the declared range.

        Raises:
            InvalidReward: it is none.
        """
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        low, high = self.range
        if isinstance(value, str) or not (math.isfinite(number) and low <= number <= high):
            raise InvalidReward(
                f"reward {self.name!r} of {source} returned {value!r}, not finite in [{low:g}, {high:g}]"
            )
        return number


class Rewards:
    """The rewards of an environment, sorted by when they are due."""

    def __init__(self, rewards: Iterable[Reward]) -> None:
        self.all = tuple(rewards)
        """All of them, group rewards included, in the order of definition."""
        names = [one.name for one in self.all]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ContractError(f"two rewards are called {min(twice)!r}")
        self.end = tuple(one for one in self.all if one.when == "end" and not one.group)
        """Due once, at the end."""
        self.turn = tuple(one for one in self.all if one.when == "turn" and not one.group)
        """Due in every turn."""
        self.group = tuple(one for one in self.all if one.group)
        """Due when all episodes of a group are over; not the environment's to pay."""
        self.end_range = _total(self.end, times=1.0)
        """Least and greatest weighted total of the end rewards."""
        self.is_async = any(one.is_async for one in (*self.end, *self.turn))
        """True if any that the environment pays must be awaited."""

    def total_range(self, max_turns: int | None) -> tuple[float, float]:
        """Least and greatest weighted total of an episode; a turn reward counts 1 to `max_turns` times."""
        low, high = self.end_range
        times = math.inf if max_turns is None else float(max_turns)
        turn_low, turn_high = _total(self.turn, times=times)
        return low + turn_low, high + turn_high


def _total(rewards: Iterable[Reward], *, times: float) -> tuple[float, float]:
    """Bounds of a weighted sum in which each term occurs 1 to `times` times."""
    low = high = 0.0
    for one in rewards:
        if one.weight == 0:  # 0 · ∞ is not a number
            continue
        bounds = sorted(one.weight * bound for bound in one.range)
        low += min(bounds[0], bounds[0] * times if bounds[0] else 0.0)
        high += max(bounds[1], bounds[1] * times if bounds[1] else 0.0)
    return low, high


def class_rewards(cls: type) -> list[Reward]:
    """The rewards that a class and its bases define with `@reward`, in order of definition."""
    found: dict[str, Reward] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            function = value.__func__ if isinstance(value, staticmethod) else value
            if hasattr(function, _MARK):
                found[name] = Reward.of(function, takes_env=not isinstance(value, staticmethod))
            elif name in found:
                del found[name]  # overridden by something that is no reward
    return list(found.values())
