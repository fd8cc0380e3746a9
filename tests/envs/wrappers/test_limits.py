from __future__ import annotations

import pytest

from turngym.envs.wrappers import TurnLimit, WallTimeLimit, limits

from .small import Sync


def test_law_06_a_limit_truncates_and_an_end_terminates():
    env = TurnLimit(Sync(), 2)
    for _ in range(2):  # the count begins anew
        env.reset(seed=0, options={"task": "train-0"})
        assert env.step("x")[2:4] == (False, False)
        _, _, terminated, truncated, info = env.step("x")
        assert (terminated, truncated, info["metrics"]) == (False, True, {})
    env.reset(seed=0, options={"task": "train-0"})
    env.step("x")
    assert env.step("red")[2:4] == (True, False)  # never both


def test_time_is_counted_from_the_reset(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(limits, "monotonic", lambda: now[0])
    env = WallTimeLimit(Sync(), 10.0)
    now[0] = 100.0
    for _ in range(2):
        env.reset(seed=0, options={"task": "train-0"})
        now[0] += 10.0
        assert env.step("x")[3] is False
        now[0] += 0.5
        *_, truncated, info = env.step("x")
        assert (truncated, info["metrics"]) == (True, {})
    env.reset(seed=0, options={"task": "train-0"})
    now[0] += 11.0
    assert env.step("red")[2:4] == (True, False)


def test_limits_make_sense():
    with pytest.raises(ValueError, match="max_turns must be at least 1, not 0"):
        TurnLimit(Sync(), 0)
    for seconds in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="max_seconds must be above 0"):
            WallTimeLimit(Sync(), seconds)
