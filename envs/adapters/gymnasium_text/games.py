"""The four text games of Gymnasium, registered here under names of their own."""

from __future__ import annotations

import functools
from contextlib import closing
from typing import Final, Literal

import gymnasium

from turngym.envs.adapters.gymnasium_text.environment import GymnasiumText, Limit
from turngym.envs.adapters.gymnasium_text.starts import distinct_starts, random_lakes
from turngym.envs.tasks import ListTasks

Lake = Literal["4x4", "8x8", "random4x4", "random8x8"]
TAXI_STARTS: Final = 300
TAXI_TEST_SHARE: Final = 0.2


def frozen_lake(
    *, map_name: Lake = "4x4", is_slippery: bool = True, limit: Limit = "spec", split: str | None = None
) -> GymnasiumText:
    """FrozenLake-v1 or FrozenLake8x8-v1.

    Args:
        map_name: one of Gymnasium's two maps, or a new one of that size for each task.
        is_slippery: True: a step goes where it should with probability 1/3, else to either side.
        limit: steps; Gymnasium's own are 100 on 4x4 and 200 on 8x8.
        split: "train" or "test"; with random maps no map is in both, else they are the same game.

    Raises:
        ValueError: no such map.
    """
    if map_name not in ("4x4", "8x8", "random4x4", "random8x8"):
        raise ValueError(f"no map {map_name!r}: there are 4x4, 8x8, random4x4 and random8x8")
    env = "FrozenLake-v1" if map_name.endswith("4x4") else "FrozenLake8x8-v1"
    tasks = None
    if map_name.startswith("random"):
        tasks = random_lakes(f"{env} {map_name} is_slippery={is_slippery}", int(map_name[-1]))
    return GymnasiumText(env, tasks=tasks, limit=limit, split=split, is_slippery=is_slippery)


def taxi(*, is_rainy: bool = False, limit: Limit = "spec", split: str | None = None) -> GymnasiumText:
    """Taxi-v4, with one task for each of its 300 starts, a fifth of them for testing.

    Args:
        is_rainy: True: a move goes to either side with probability 0.1 each.
        limit: steps; Gymnasium's own are 200.
        split: "train" or "test".
    """
    return GymnasiumText("Taxi-v4", tasks=_taxi_starts(is_rainy), limit=limit, split=split, is_rainy=is_rainy)


@functools.cache
def _taxi_starts(is_rainy: bool) -> ListTasks:
    with closing(gymnasium.make("Taxi-v4", disable_env_checker=True)) as env:
        return distinct_starts(
            f"Taxi-v4 is_rainy={is_rainy}", env.unwrapped, TAXI_STARTS, test_share=TAXI_TEST_SHARE
        )


def cliff_walking(
    *, is_slippery: bool = False, limit: Limit = 100, split: str | None = None
) -> GymnasiumText:
    """CliffWalking-v1, cut after 100 steps (Gymnasium never cuts it).

    Args:
        is_slippery: True: a step goes where it should with probability 1/3, else to either side.
        limit: steps; None: never.
        split: "train" or "test", which are the same game.
    """
    return GymnasiumText("CliffWalking-v1", limit=limit, split=split, is_slippery=is_slippery)


def blackjack(*, sab: bool = True, natural: bool = False, split: str | None = None) -> GymnasiumText:
    """Blackjack-v1. A task is the first hand: two cards and the dealer's card.

    Args:
        sab: the rules of Sutton and Barto: a natural wins against everything but a natural.
        natural: a win with a natural pays 1.5; without effect where `sab` is True.
        split: "train" or "test": other deals of the same game.
    """
    return GymnasiumText("Blackjack-v1", split=split, sab=sab, natural=natural)
