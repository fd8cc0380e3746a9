"""The numbers that an environment reports, checked where they come in: rewards, and figures by name.

A success of 5 or a reward of 1e308 is a mistake of the environment's author. It would spoil every mean that it
enters, so the episode has no score, and the message names the number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from turngym.envs.errors import InvalidReward

LARGEST_REWARD: Final = 1e9
"""Bound of the reward of one step, either way. Nobody means more, and float32 learns nothing from it."""

LARGEST_FIGURE: Final = 1e15
"""Bound of any other figure, either way: up to there floats count exactly."""


def checked_reward(value: Any, source: str) -> float:
    """The reward of a step as a number.

    Args:
        value: what the environment gave.
        source: who gave it, for the message.

    Raises:
        InvalidReward: it is no finite number of a sane size.
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not abs(number) <= LARGEST_REWARD:
        raise InvalidReward(
            f"{source}: the reward is {value!r}, not a finite number between ±{LARGEST_REWARD:g}: scale it"
        )
    return number


def checked_figures(figures: Mapping[str, Any] | None, source: str) -> Mapping[str, float]:
    """Named figures as numbers. NaN means that a figure was not computed, so its name is left out.

    Raises:
        InvalidReward: one is no number, infinite or of no sane size, or its name is no text.
    """
    checked: dict[str, float] = {}
    for name, value in (figures or {}).items():
        if not isinstance(name, str):
            raise InvalidReward(f"{source}: a figure is called {name!r}: names are text")
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidReward(f"{source}: {name} is {value!r}, which is no number") from error
        if abs(number) > LARGEST_FIGURE:
            raise InvalidReward(f"{source}: {name} is {value!r}, not between ±{LARGEST_FIGURE:g}: scale it")
        if not math.isnan(number):
            checked[name] = number
    return checked


def checked_metrics(metrics: Mapping[str, Any] | None, source: str) -> Mapping[str, float]:
    """The figures of an episode's end, of which `success` is a share.

    Raises:
        InvalidReward: as `checked_figures`, or success is not between 0 and 1.
    """
    checked = checked_figures(metrics, source)
    if not 0.0 <= checked.get("success", 0.0) <= 1.0:
        raise InvalidReward(
            f"{source}: success is {checked['success']:g}, not between 0 and 1: report another figure "
            "under a name of its own (a reward called success is taken for it)"
        )
    return checked
