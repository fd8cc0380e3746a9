"""What the checks share: environments, tasks, and a loop that plays and records an episode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from turngym.envs.env import Env, Observation, StepResult, policies_of
from turngym.envs.errors import UnknownPolicy
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


def succeeded(env: Env, played: Played) -> bool:
    """True if an episode reports success, or else earned the greatest reward that there is."""
    if "success" in played.metrics:
        return played.metrics["success"] == 1.0
    return math.isclose(played.reward, env.reward_range[1], rel_tol=1e-9)


class Probe:
    """An environment under examination.

    Args:
        env_id: under which it is registered.
        tasks: how many tasks of each split to play.
        episodes: how many episodes of random play.
        seed: of episodes and of random play.
    """

    def __init__(self, env_id: str, *, tasks: int, episodes: int = 1, seed: int) -> None:
        self.env_id = env_id
        self.episodes = episodes
        self.seed = seed
        self._policies: dict[str, ReferencePolicy] = {}
        with closing(self.make()) as env:
            self.splits = env.tasks.splits
            self.nondeterministic = env.spec is not None and env.spec.nondeterministic
            self._tasks = {split: _first(env, split, tasks) for split in self.splits}
            self.policy_names = tuple(sorted(policies_of(env)))
            """Names of its reference policies."""

    def make(self) -> Env:
        """A new environment."""
        return make(self.env_id)

    def tasks(self, split: str | None = None) -> tuple[Task, ...]:
        """The first tasks of a split; by default those of all splits."""
        return (
            self._tasks[split] if split else tuple(task for tasks in self._tasks.values() for task in tasks)
        )

    def few(self, count: int) -> tuple[Task, ...]:
        """At most `count` tasks of each split, for laws that play each of them many times."""
        return tuple(task for tasks in self._tasks.values() for task in tasks[:count])

    def policy(self, name: str) -> ReferencePolicy:
        """A reference policy of the environment."""
        if name not in self._policies:
            self._policies[name] = reference_policy(self.env_id, name)
        return self._policies[name]

    def expert(self) -> ReferencePolicy | None:
        """The policy "expert"; None if the environment has none."""
        try:
            return self.policy("expert")
        except UnknownPolicy:
            return None

    def play(
        self,
        env: Env,
        policy: ReferencePolicy,
        task: Task,
        *,
        seed: int | None = None,
        most: int = MOST_TURNS,
    ) -> Played:
        """An episode of a policy on a task, by default with this probe's seed."""
        seed = self.seed if seed is None else seed
        rng = np.random.default_rng(seed)
        opening = env.reset(seed=seed, options={"task": task})
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
