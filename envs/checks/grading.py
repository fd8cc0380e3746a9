"""Checks of the grading: who earns the reward, and how much of it."""

from __future__ import annotations

import itertools
from contextlib import closing

from turngym.envs.checks.probe import Probe, require, succeeded


def expert_succeeds(probe: Probe) -> str:
    """The policy "expert" solves every task: success where it is reported, else the greatest reward."""
    rewards = []
    with closing(probe.make()) as env:
        for task in probe.tasks():
            played = probe.play(env, probe.policy("expert"), task)
            rewards.append(played.reward)
            require(played.is_over, f"the expert did not finish task {task.id}")
            require(
                succeeded(env, played),
                f"the expert failed on task {task.id} with the reward {played.reward:g}",
            )
    return f"{len(rewards)} tasks, mean reward {sum(rewards) / len(rewards):.4g}"


def null_fails(probe: Probe) -> str:
    """The policy that says nothing succeeds nowhere."""
    with closing(probe.make()) as env:
        for task in probe.tasks():
            played = probe.play(env, probe.policy("null"), task)
            require(not succeeded(env, played), f"an empty reply solves task {task.id}")
    return f"{len(probe.tasks())} tasks"


def rewards_stay_in_range(probe: Probe) -> str:
    """No policy earns more or less than the environment declares, in a whole episode."""
    count = 0
    with closing(probe.make()) as env:
        low, high = env.reward_range
        for name in probe.policy_names:
            for task in probe.tasks():
                played = probe.play(env, probe.policy(name), task)
                slack = 1e-9 * max(1.0, abs(played.reward))
                inside = low - slack <= played.reward <= high + slack
                count += played.is_over
                require(
                    inside or not played.is_over,
                    f"{name!r} earns {played.reward:g} on task {task.id}, outside [{low:g}, {high:g}]",
                )
    return f"{count} episodes in [{low:g}, {high:g}]"


def splits_are_disjoint(probe: Probe) -> str:
    """No two splits share a task, compared by content, in a sample."""
    hashes = {split: {task.content_hash for task in probe.tasks(split)} for split in probe.splits}
    for one, other in itertools.combinations(probe.splits, 2):
        require(not hashes[one] & hashes[other], f"the splits {one!r} and {other!r} share a task")
    return f"{', '.join(probe.splits)}: {len(probe.tasks())} tasks"
