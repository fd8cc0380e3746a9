"""Checks of the dynamics: what decides how an episode goes, and nothing else does."""

from __future__ import annotations

import random
from contextlib import closing
from typing import Any

import numpy as np

from turngym.envs.checks.probe import Played, Probe, require
from turngym.envs.env import Env
from turngym.envs.tasks import Task
from turngym.sandboxes import async_bridge


def determinism(probe: Probe) -> str:
    """Two new environments, the same seed and actions."""
    if probe.nondeterministic:
        return "declared nondeterministic"
    with closing(probe.make()) as first, closing(probe.make()) as second:
        for task in probe.tasks():
            played = probe.play(first, probe.policy("random"), task)
            _same(played, probe.replay(second, task, played.actions), f"task {task.id}, played again")
    return f"{len(probe.tasks())} episodes twice"


def seed_alone_decides(probe: Probe) -> str:
    """A used environment starts like a new one, and global generators are neither read nor moved."""
    if probe.nondeterministic:
        return "declared nondeterministic"
    with closing(probe.make()) as fresh, closing(probe.make()) as used:
        for number in range(3):
            probe.play(used, probe.policy("random"), probe.tasks()[number % len(probe.tasks())])
            used.reset()
        for seed in range(probe.seed, probe.seed + 8):
            before = random.getstate(), _global_numpy_state()
            expected = fresh.reset(seed=seed)
            require(expected == used.reset(seed=seed), f"reset(seed={seed}) differs after other episodes")
            action = fresh.action_space.sample()
            require(
                fresh.step(action) == used.step(action), f"the first step after reset(seed={seed}) differs"
            )
            require(
                before == (random.getstate(), _global_numpy_state()), "a global random generator was moved"
            )
    return "8 seeds, new against used"


_MOST_FORKS = 6
"""Places in an episode where it is forked: each costs the rest of the episode three times."""


def fork_law(probe: Probe) -> str:
    """Fork in mid-episode: the same actions on both sides, and back in a snapshot, give the same results."""
    if probe.nondeterministic:
        return "declared nondeterministic"
    with closing(probe.make()) as env:
        for task in probe.tasks():
            _fork_one(probe, env, task)
    return f"{len(probe.tasks())} episodes, forked at up to {_MOST_FORKS} steps of each"


def _fork_one(probe: Probe, env: Env, task: Task) -> None:
    played = probe.play(env, probe.policy("random"), task)
    env.reset(seed=probe.seed, options={"task": task})
    count = len(played.actions)
    forked_at = {round(n * (count - 1) / (_MOST_FORKS - 1)) for n in range(_MOST_FORKS)}
    for step in range(count):
        if step not in forked_at:
            env.step(played.actions[step])
            continue
        rest = played.actions[step:]
        expected = played.results[step:]
        twin, snapshot = env.fork(), env.snapshot()
        require(
            tuple(twin.step(action) for action in rest) == expected,
            f"task {task.id}: a fork went another way",
        )
        require(
            tuple(env.step(action) for action in rest) == expected,
            f"task {task.id}: a fork disturbed the original",
        )
        env.restore(snapshot)
        env.step(played.actions[step])


def faces_agree(probe: Probe) -> str:
    """reset/step and areset/astep give the same episode."""
    if probe.nondeterministic:
        return "declared nondeterministic"
    with closing(probe.make()) as env:
        for task in probe.tasks():
            played = probe.play(env, probe.policy("random"), task)
            awaited = async_bridge.run(_awaited(probe, task, played))
            _same(played, awaited, f"task {task.id}, awaited")
    return f"{len(probe.tasks())} episodes both ways"


async def _awaited(probe: Probe, task: Task, played: Played) -> Played:
    env = probe.make()
    opening = await env.areset(seed=probe.seed, options={"task": task})
    results = [await env.astep(action) for action in played.actions]
    await env.aclose()
    return Played(opening, played.actions, tuple(results))


def _same(first: Played, second: Played, where: str) -> None:
    require(first.opening == second.opening, f"{where}: reset differs")
    for number, (one, other) in enumerate(zip(first.results, second.results, strict=True)):
        require(one == other, f"{where}: step {number} differs: {one} against {other}")


def _global_numpy_state() -> Any:
    name, keys, *rest = np.random.get_state(legacy=True)  # read only, to see that nobody moved it
    return name, np.asarray(keys).tobytes(), rest
