"""Reference policies, players without a model: "expert" knows all, "null" says nothing, "random" anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from gymnasium.spaces import Space

from turngym.envs.messages import Message, assistant
from turngym.envs.sampling import random_action
from turngym.envs.spaces import ActionSpace, as_action
from turngym.envs.tasks import Task


class ReferencePolicy(Protocol):
    """A pure function of the task (hidden target included), the conversation so far, and a generator."""

    def __call__(self, task: Task, history: Sequence[Message], rng: np.random.Generator, /) -> Message:
        """The next assistant message; `history` starts with the prompt."""
        ...


@dataclass(frozen=True, slots=True)
class Optimum:
    """What the best policy earns on a task in which luck decides too, known exactly."""

    mean: float
    """Expected reward of an episode."""
    deviation: float
    """Standard deviation of the reward of one episode."""


def null_policy(_task: Task, _history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """An empty reply, always: what it earns, an environment gives away."""
    return assistant("")


def default_policies(action_space: Space[Any]) -> dict[str, ReferencePolicy]:
    """The "null" and "random" policies that every environment has; "random" samples the action space."""
    tools = action_space.tools if isinstance(action_space, ActionSpace) else ()
    choices = action_space.choices if isinstance(action_space, ActionSpace) else None

    def random_policy(_task: Task, _history: Sequence[Message], rng: np.random.Generator) -> Message:
        return as_action(random_action(rng, tools, choices))

    return {"null": null_policy, "random": random_policy}
