"""The episodes of one training step: which tasks, in groups, played at once, and stored before anything
learns from them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter

import numpy as np

from turngym.agents.group_rewards import paid_batches
from turngym.agents.limits import Limits
from turngym.agents.protocols import Agent, NoiseKey
from turngym.agents.runner import EpisodeRequest, MakeEnv, episode_seed, run_batches
from turngym.agents.types import Trajectory
from turngym.envs.errors import UnknownTask
from turngym.envs.rewards import Reward
from turngym.envs.tasks import Task, TaskSet, get_from, iterate
from turngym.evaluation.records import EpisodeSummary
from turngym.evaluation.store import RunStore
from turngym.trainer.config import EnvConfig, RolloutConfig
from turngym.trainer.errors import ConfigError

_ENDLESS_DRAWS = 10_000


class TaskOrder:
    """The endless order in which a run meets its tasks: a function of its seed, so the position is all that a
    resumed run has to know. A sized split is shuffled anew for each pass over it."""

    def __init__(self, tasks: TaskSet, config: EnvConfig, *, seed: int) -> None:
        """Set up the order.

        Raises:
            ConfigError: no task of the split has the ids or tags that the configuration asks for.
        """
        self._tasks = tasks
        self._split = config.split
        self._seed = seed
        self._tags = None if config.task_tags is None else set(config.task_tags)
        self._chosen: Sequence[Task] | None = None
        if config.task_ids is not None:
            self._chosen = [
                task for task in _of_split(tasks, config.split, config.task_ids) if self._wanted(task)
            ]
        elif tasks.size(config.split) is not None:
            self._chosen = [task for task in iterate(tasks, config.split) if self._wanted(task)]
        if self._chosen is not None and not self._chosen:
            raise ConfigError(
                f"no task of split {config.split!r} passes env.task_ids = {config.task_ids} and "
                f"env.task_tags = {config.task_tags}: name others, or leave them out"
            )

    def at(self, position: int) -> Task:
        """Task number `position` of the run."""
        if self._chosen is not None:
            lap, place = divmod(position, len(self._chosen))
            order = np.random.default_rng([self._seed, lap]).permutation(len(self._chosen))
            return self._chosen[int(order[place])]
        rng = np.random.default_rng([self._seed, position])
        for _ in range(_ENDLESS_DRAWS):
            task = self._tasks.at(self._split, int(rng.integers(2**31)))
            if self._wanted(task):
                return task
        raise ConfigError(
            f"not one of {_ENDLESS_DRAWS} tasks of split {self._split!r} has a tag of {self._tags}"
        )

    def _wanted(self, task: Task) -> bool:
        return self._tags is None or not self._tags.isdisjoint(task.tags)


def _of_split(tasks: TaskSet, split: str, ids: Sequence[str]) -> list[Task]:
    try:
        return [get_from(tasks, split, task_id) for task_id in ids]
    except UnknownTask as error:
        raise ConfigError(f"env.task_ids with env.split = {split!r}: {error}") from error


def limits_of(rollout: RolloutConfig) -> Limits:
    """The runner's limits of an episode."""
    return Limits(max_turns=rollout.max_turns, max_tokens=rollout.max_tokens, max_seconds=rollout.max_seconds)


def group_requests(
    order: TaskOrder, *, env_id: str, seed: int, step: int, position: int, groups: int, group_size: int
) -> Iterator[EpisodeRequest]:
    """`groups` tasks from a position of the order on, each played `group_size` times.

    A task that comes twice in a step makes two groups; its episodes are numbered through, so that no two
    share their noise. The members of a group share task and prompt; the dynamics of each are seeded by its
    own number.
    """
    seen: Counter[str] = Counter()
    for group in range(groups):
        task = order.at(position + group)
        for _ in range(group_size):
            sample = seen[task.id]
            seen[task.id] += 1
            noise = NoiseKey(seed, step, task.id, sample)
            dynamics = episode_seed(seed, step, task.id, sample)
            yield EpisodeRequest(task, dynamics, noise, sample, group, env_id)


@dataclass(frozen=True, slots=True)
class Collected:
    """What a step learns from, and the figures of all that it played."""

    trajectories: tuple[Trajectory, ...]
    """Episodes to train on, in the order of their requests; none where every episode was left out."""
    groups: tuple[int, ...]
    """The group of each."""
    figures: Mapping[str, float]
    """Reward, success, lengths, failures."""
    reasons: Mapping[str, int]
    """How many episodes were left out, by reason."""
    error: str | None = None
    """What the first failed episode says about itself; None if none failed."""


async def collect(
    make_env: MakeEnv,
    agent: Agent,
    requests: Sequence[EpisodeRequest],
    *,
    store: RunStore,
    phase: str,
    step: int,
    rollout: RolloutConfig,
    needs_group: bool,
    group_rewards: Sequence[Reward] = (),
) -> Collected:
    """Play the requests, store every episode, and choose what to train on.

    Rewards that compare the members of a group are paid when the last of them is over, before it is stored. An
    episode that failed through no fault of the agent's, or sampled no token, leaves its group smaller;
    where an algorithm compares the members of a group, one that is left alone is dropped too.

    Raises:
        StoreError: the episodes cannot be stored.
    """
    started = perf_counter()
    played: dict[tuple[str, int], Trajectory] = {}
    summaries: list[EpisodeSummary] = []
    limits = limits_of(rollout)
    at_once = max(1, min(rollout.concurrency, len(requests)))
    played_batches = run_batches(
        make_env, agent, requests, limits=limits, concurrency=at_once, retries=rollout.retries
    )
    sizes = Counter(request.group for request in requests)
    batches = paid_batches(
        played_batches,
        group_rewards,
        group_size=lambda request: sizes[request.group],
        retries=rollout.retries,
    )
    async with contextlib.aclosing(batches):
        async for batch in batches:
            summaries += store.add_episodes(
                phase,
                step,
                [trajectory for _, trajectory in batch],
                groups=[request.group for request, _ in batch],
                tags=[request.task.tags for request, _ in batch],
            )
            played.update(((request.task.id, request.sample), trajectory) for request, trajectory in batch)
    in_order = [(request, played[request.task.id, request.sample]) for request in requests]
    kept, reasons = _choose(in_order, needs_group=needs_group)
    figures = _figures(summaries, list(played.values()), perf_counter() - started)
    figures["left_out_share"] = sum(reasons.values()) / len(requests)
    trajectories, groups = (
        tuple(trajectory for _, trajectory in kept),
        tuple(request.group for request, _ in kept),
    )
    error = next((t.outcome.error for _, t in in_order if t.outcome.kind == "failed"), None)
    return Collected(trajectories, groups, figures, reasons, error)


_Played = tuple[EpisodeRequest, Trajectory]


def _choose(episodes: Sequence[_Played], *, needs_group: bool) -> tuple[list[_Played], Counter[str]]:
    kept: list[_Played] = []
    reasons: Counter[str] = Counter()
    for request, trajectory in episodes:
        if not trajectory.outcome.scored:
            reasons[f"failed ({trajectory.outcome.cause})"] += 1
        elif not trajectory.trainable:
            reasons["without a sampled token"] += 1
        else:
            kept.append((request, trajectory))
    if needs_group:
        sizes = Counter(request.group for request, _ in kept)
        alone = [pair for pair in kept if sizes[pair[0].group] < 2]
        if alone:
            reasons["alone in their group"] += len(alone)
            kept = [pair for pair in kept if sizes[pair[0].group] >= 2]
    return kept, reasons


def _figures(
    summaries: Sequence[EpisodeSummary], trajectories: Sequence[Trajectory], wall_s: float
) -> dict[str, float]:
    """Means over scored episodes; failures that have no score count in `failed_share` alone.

    What the environment reports is called env/NAME, so that no name of its choice can be taken for the trainer's.
    """
    scored = [summary for summary in summaries if summary.scored]
    sampled = sum(summary.action_tokens for summary in summaries)
    figures = {
        "episodes": float(len(summaries)),
        "failed_share": 1 - len(scored) / len(summaries),
        "rollout_s": wall_s,
        "sampled_tokens": float(sampled),
        "sampled_tokens_per_s": sampled / wall_s,
    }
    metrics = [trajectory.metrics for trajectory in trajectories if trajectory.outcome.scored]
    for name in sorted(set().union(*metrics) - {"success"}):
        figures[f"env/{name}"] = fmean(values[name] for values in metrics if name in values)
    if scored:
        figures |= {
            "reward": fmean(summary.reward or 0.0 for summary in scored),
            "turns": fmean(summary.turns for summary in scored),
            "action_tokens": fmean(summary.action_tokens for summary in scored),
            "truncated_share": fmean(summary.kind == "truncated" for summary in scored),
        }
    successes = [summary.success for summary in scored if summary.success is not None]
    return figures | ({"success": fmean(successes)} if successes else {})
