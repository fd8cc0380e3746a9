"""Pays group rewards: holds finished episodes back until their group is whole, then compares them.

Only episodes that the environment ended are compared, and only where there are two of them: one that was cut or
failed earns nothing here, as it earns no end reward. A group whose comparison fails has no score at all (law 10).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

import gymnasium

from turngym.agents.failures import failure
from turngym.agents.runner import EpisodeRequest, Finished
from turngym.agents.types import Trajectory
from turngym.envs.errors import EnvError
from turngym.envs.figures import checked_metrics, checked_reward
from turngym.envs.group_rewards import Group, group_values
from turngym.envs.rewards import Reward

_LEAST: Final = 2
"""Fewer episodes have nothing to be compared with."""


def group_rewards_of(env: gymnasium.Env[Any, Any]) -> tuple[Reward, ...]:
    """The group rewards that an environment declares, wrapped or not."""
    declared: tuple[Reward, ...] = getattr(env.unwrapped, "group_rewards", ())
    return declared


async def paid_batches(
    batches: AsyncGenerator[list[Finished], None],
    rewards: Sequence[Reward],
    *,
    group_size: Callable[[EpisodeRequest], int],
    retries: int = 2,
) -> AsyncGenerator[list[Finished], None]:
    """The batches of `run_batches` with group rewards paid; episodes come when their group is whole.

    Args:
        batches: finished episodes.
        rewards: what to pay; without any, the batches come as they are.
        group_size: how many episodes the group of a request has here.
        retries: further attempts after a comparison that failed.
    """
    waiting: dict[int, list[Finished]] = {}
    async with contextlib.aclosing(batches):
        async for batch in batches:
            if not rewards:
                yield batch
                continue
            whole: list[list[Finished]] = []
            for request, trajectory in batch:
                members = waiting.setdefault(request.group, [])
                members.append((request, trajectory))
                if len(members) == group_size(request):
                    whole.append(waiting.pop(request.group))
            if whole:
                paid = await asyncio.gather(*(_pay(group, rewards, retries) for group in whole))
                yield [finished for group in paid for finished in group]


async def _pay(group: list[Finished], rewards: Sequence[Reward], retries: int) -> list[Finished]:
    """The members of a group, in the order of their samples, with what they earn by comparison."""
    group = sorted(group, key=lambda finished: finished[0].sample)
    compared = [number for number, (_, trajectory) in enumerate(group) if trajectory.group_view is not None]
    if len(compared) < _LEAST:
        return [(request, dataclasses.replace(t, group_view=None)) for request, t in group]
    views = tuple(view for number in compared if (view := group[number][1].group_view) is not None)
    request, first = group[compared[0]]
    error: Exception | None = None
    for _ in range(retries + 1):
        try:
            values = [await group_values(one, Group(first.env_id, request.task, views)) for one in rewards]
            columns = list(zip(*values, strict=True))
            earned = {
                number: _with(group[number][1], rewards, column)
                for number, column in zip(compared, columns, strict=True)
            }
        except EnvError as broken:
            error = broken
            continue
        return [
            (request, dataclasses.replace(earned.get(number, trajectory), group_view=None))
            for number, (request, trajectory) in enumerate(group)
        ]
    assert error is not None
    outcome = failure(error, "env")
    return [
        (request, dataclasses.replace(t, group_view=None, outcome=outcome if n in compared else t.outcome))
        for n, (request, t) in enumerate(group)
    ]


def _with(trajectory: Trajectory, rewards: Sequence[Reward], values: Sequence[float]) -> Trajectory:
    """The episode with values paid on its last turn; those of weight 0 are metrics."""
    *before, last = trajectory.turns
    paid, components, metrics = last.reward, dict(last.reward_components), dict(trajectory.metrics)
    for one, value in zip(rewards, values, strict=True):
        if one.weight == 0:
            metrics[one.name] = value
        else:
            components[one.name] = value
            paid += one.weight * value
    last = dataclasses.replace(
        last, reward=checked_reward(paid, trajectory.env_id), reward_components=components
    )
    return dataclasses.replace(
        trajectory, turns=(*before, last), metrics=checked_metrics(metrics, trajectory.env_id)
    )
