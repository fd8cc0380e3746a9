"""Checks of the grading: who earns the reward, and how much of it."""

from __future__ import annotations

import itertools
import math
from contextlib import closing

from turngym.envs.checks.probe import Probe, require, succeeded
from turngym.envs.env import Env

EPISODES = 16
"""Episodes on each task where luck decides too."""
LONGEST = 1000
"""Turns of such an episode: it must come to its end, or its reward says nothing."""


def expert_succeeds(probe: Probe) -> str:
    """The policy "expert" solves every task: success where it is reported, else the greatest reward.

    Where luck decides too (`Env.is_stochastic`), its mean reward must be the exact optimum of the tasks played, within
    four standard errors: rightly so in all but 1 of 15,000 such comparisons.
    """
    rewards = []
    with closing(probe.make()) as env:
        if env.is_stochastic:
            return _expert_is_optimal(probe, env)
        for task in probe.tasks():
            played = probe.play(env, probe.policy("expert"), task)
            rewards.append(played.reward)
            require(played.is_over, f"the expert did not finish task {task.id}")
            require(
                succeeded(env, played),
                f"the expert failed on task {task.id} with the reward {played.reward:g}",
            )
    return f"{len(rewards)} tasks, mean reward {sum(rewards) / len(rewards):.4g}"


def _expert_is_optimal(probe: Probe, env: Env) -> str:
    expert, optima = probe.policy("expert"), [env.optimum(task) for task in probe.tasks()]
    total = 0.0
    for place, task in enumerate(probe.tasks()):
        for repeat in range(EPISODES):
            number = place * EPISODES + repeat
            played = probe.play(env, expert, task, most=LONGEST, seed=probe.seed + number)
            require(played.is_over, f"the expert did not finish task {task.id} in {LONGEST} turns")
            total += played.reward
    count = len(optima) * EPISODES
    mean, best = total / count, sum(one.mean for one in optima) / len(optima)
    slack = 4 * math.sqrt(EPISODES * sum(one.deviation**2 for one in optima)) / count + 1e-9
    said = f"{count} episodes, mean reward {mean:.4g}, exact optimum {best:.4g} ± {slack:.2g}"
    require(abs(mean - best) <= slack, f"the expert is not optimal: {said}")
    return said


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
