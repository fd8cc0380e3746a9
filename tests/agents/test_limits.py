"""Limits of an episode."""

from __future__ import annotations

import math

import pytest

from turngym.agents.limits import Limits
from turngym.envs.tasks import TaskLimits


@pytest.mark.parametrize("name", ["max_turns", "max_tokens", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1, math.nan])
def test_nonsense_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        Limits(**{name: value})


def test_the_smaller_of_runner_and_task_wins() -> None:
    runner = Limits(max_turns=4, max_tokens=100)
    assert runner.within(TaskLimits(max_turns=9, max_tokens=50, max_seconds=1)) == Limits(4, 50, 1.0)
    assert runner.within(TaskLimits()) is runner
