"""Checks of the grading: who earns the reward, and what must stay hidden until then."""

from __future__ import annotations

import itertools
import json
import math
from contextlib import closing

from turngym.envs.checks.probe import Played, Probe, require
from turngym.envs.env import Env, policies_of
from turngym.envs.messages import Message
from turngym.envs.tasks import Task

EPISODES = 16
"""Episodes on each task where luck decides too."""
LONGEST = 1000
"""Turns of such an episode: it must come to its end, or its reward says nothing."""

SHORTEST_NEEDLE = 4
"""Targets shorter than this occur in texts by chance; for them only the comparison of openings speaks."""


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
                _succeeded(env, played),
                f"the expert failed on task {task.id} with the reward {played.reward:g}",
            )
    return f"{len(rewards)} tasks, mean reward {sum(rewards) / len(rewards):.4g}"


def _expert_is_optimal(probe: Probe, env: Env) -> str:
    expert, optima = probe.policy("expert"), [env.optimum(task) for task in probe.tasks()]
    total = 0.0
    for place, task in enumerate(probe.tasks()):
        for repeat in range(EPISODES):
            number = place * EPISODES + repeat
            played = probe.play(env, expert, task, most=LONGEST, number=number)
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
            require(not _succeeded(env, played), f"an empty reply solves task {task.id}")
    return f"{len(probe.tasks())} tasks"


def _succeeded(env: Env, played: Played) -> bool:
    if "success" in played.metrics:
        return played.metrics["success"] == 1.0
    return math.isclose(played.reward, env.reward_range[1], rel_tol=1e-9)


def rewards_stay_in_range(probe: Probe) -> str:
    """No policy earns more or less than the environment declares, in a whole episode."""
    count = 0
    with closing(probe.make()) as env:
        low, high = env.reward_range
        for name in sorted(policies_of(env)):
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


def target_is_hidden(probe: Probe) -> str:
    """Openings do not depend on the target, and no observation before the end spells it out.

    A prompt may quote its target (reading comprehension asks for a passage): the report counts such tasks.
    """
    scanned = quoted = 0
    with closing(probe.make()) as env:
        tasks = probe.tasks()
        for task, other in zip(tasks, (*tasks[1:], tasks[0]), strict=True):
            if task.target is None:
                continue
            _opening_ignores_target(probe, env, task, other)
            needle = task.target if isinstance(task.target, str) else json.dumps(task.target, default=str)
            if len(needle) < SHORTEST_NEEDLE:
                continue
            if any(needle in _words(message) for message in task.prompt):
                quoted += 1
                continue
            for name in ("null", "random"):
                scanned += _scan(needle, task, probe.play(env, probe.policy(name), task))
    return f"{scanned} messages scanned" + (f"; {quoted} prompts quote their target" if quoted else "")


def _opening_ignores_target(probe: Probe, env: Env, task: Task, other: Task) -> None:
    observation, _ = env.reset(seed=probe.seed, options={"task": task})
    swapped = task.model_copy(update={"target": other.target})
    require(
        observation == env.reset(seed=probe.seed, options={"task": swapped})[0],
        f"the opening of task {task.id} depends on its hidden target",
    )


def _scan(needle: str, task: Task, played: Played) -> int:
    observations = [played.opening[0], *(r[0] for r in played.results if not (r[2] or r[3]))]
    messages = [message for observation in observations for message in observation]
    spoken = " ".join(_words(message) for message in played.actions)
    if needle not in spoken:
        for message in messages:
            require(needle not in _words(message), f"an observation of task {task.id} spells out its target")
    return len(messages)


def _words(message: Message) -> str:
    return message.text + "".join(call.function.arguments for call in message.tool_calls)
