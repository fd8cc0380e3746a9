"""What the checks share: environments, tasks, and a loop that plays and records an episode."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from turngym.envs.env import Env, Observation, StepResult, policies_of
from turngym.envs.messages import Message
from turngym.envs.policies import ReferencePolicy
from turngym.envs.registry import make, reference_policy
from turngym.envs.tasks import Task, iterate

MOST_TURNS = 64
"""Where a check gives up on an episode; it is no failure to go on longer."""


class ProbeFailed(AssertionError):
    """A law was found broken; the message says how."""


def require(held: bool, otherwise: str) -> None:
    """Raise ProbeFailed unless a law held."""
    if not held:
        raise ProbeFailed(otherwise)


@dataclass(frozen=True, slots=True)
class Played:
    """One episode, whole."""

    opening: tuple[Observation, dict[str, Any]]
    """What reset returned."""
    actions: tuple[Message, ...]
    """What the policy did."""
    results: tuple[StepResult, ...]
    """What each step returned."""

    @property
    def reward(self) -> float:
        """Sum over the steps."""
        return sum(result[1] for result in self.results)

    @property
    def is_over(self) -> bool:
        """True if the environment ended it."""
        return bool(self.results) and (self.results[-1][2] or self.results[-1][3])

    @property
    def metrics(self) -> dict[str, float]:
        """What the last step reported."""
        metrics: dict[str, float] = self.results[-1][4].get("metrics", {}) if self.results else {}
        return metrics


class Probe:
    """An environment under examination.

    Args:
        env_id: under which it is registered.
        tasks: how many tasks of each split to play.
        seed: of episodes and of random play.
    """

    def __init__(self, env_id: str, *, tasks: int, seed: int) -> None:
        self.env_id = env_id
        self.seed = seed
        with closing(self.make()) as env:
            self.splits = env.tasks.splits
            self.nondeterministic = env.spec is not None and env.spec.nondeterministic
            self._tasks = {split: _first(env, split, tasks) for split in self.splits}
            self._policy_names = set(policies_of(env))

    def make(self) -> Env:
        """A new environment."""
        return make(self.env_id)

    def tasks(self, split: str | None = None) -> tuple[Task, ...]:
        """The first tasks of a split; by default those of all splits."""
        return (
            self._tasks[split] if split else tuple(task for tasks in self._tasks.values() for task in tasks)
        )

    def policy(self, name: str) -> ReferencePolicy:
        """A reference policy of the environment."""
        return reference_policy(self.env_id, name)

    def play(
        self, env: Env, policy: ReferencePolicy, task: Task, *, most: int = MOST_TURNS, number: int = 0
    ) -> Played:
        """An episode of a policy on a task, with this probe's seed, or the one `number` after it."""
        rng = np.random.default_rng([self.seed + number, 1])  # not the stream that the environment draws from
        opening = env.reset(seed=self.seed + number, options={"task": task})
        actions: list[Message] = []
        results: list[StepResult] = []
        while len(results) < most and not (results and (results[-1][2] or results[-1][3])):
            actions.append(policy(task, tuple(env.history), rng))
            results.append(env.step(actions[-1]))
        return Played(opening, tuple(actions), tuple(results))

    def replay(self, env: Env, task: Task, actions: Sequence[Message]) -> Played:
        """An episode of given actions on a task, with this probe's seed."""
        opening = env.reset(seed=self.seed, options={"task": task})
        return Played(opening, tuple(actions), tuple(env.step(action) for action in actions))


def _first(env: Env, split: str, count: int) -> tuple[Task, ...]:
    size = env.tasks.size(split)
    return tuple(iterate(env.tasks, split, count if size is None else min(count, size)))
