"""Intervals: a hand-computed case each, and the property that matters, coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.evaluation.metrics import Interval, Moments, mean, proportion, student_quantile


def moments(tasks: Sequence[Sequence[float]]) -> Moments:
    out = Moments()
    for values in tasks:
        out.add_task(len(values), sum(values))
    return out


def known(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


def test_wilson_by_hand() -> None:
    # Newcombe 1998, Table I: 81 of 263 gives 0.2553 to 0.3662; 0 of 20 gives 0.0000 to 0.1611.
    interval = known(proportion(moments([[1.0]] * 81 + [[0.0]] * 182)))
    assert interval.mean == pytest.approx(81 / 263)
    assert (interval.low, interval.high) == (pytest.approx(0.2553, abs=5e-5), pytest.approx(0.3662, abs=5e-5))
    none = known(proportion(moments([[0.0]] * 20)))
    assert (none.low, none.high) == (0.0, pytest.approx(0.1611, abs=5e-5))
    assert str(none) == "0.000 [0.000, 0.161]"


def test_student_by_hand() -> None:
    # 1, 2, 3, 4: mean 2.5, s²/n = (5/3)/4, t(0.975, 3) = 3.1824.
    interval = known(mean(moments([[1.0], [2.0], [3.0], [4.0]])))
    half = 3.1824 * math.sqrt(5 / 12)
    assert interval.mean == 2.5
    assert interval.low == pytest.approx(2.5 - half, abs=5e-3)
    assert interval.high == pytest.approx(2.5 + half, abs=5e-3)


def test_a_clustered_variance_by_hand() -> None:
    # Tasks (1, 1), (0, 0), (1, 0): x̄ = 1/2, residual sums 1, −1, 0, so v = 3/2 · 2 / 36 = 1/12.
    assert moments([[1, 1], [0, 0], [1, 0]]).variance_of_mean() == pytest.approx(1 / 12)


@pytest.mark.parametrize(
    ("degrees", "value"),
    [
        (1, 12.7062),
        (2, 4.3027),
        (3, 3.1824),
        (4, 2.7764),
        (5, 2.5706),
        (10, 2.2281),
        (30, 2.0423),
        (1000, 1.9623),
    ],
)
def test_quantiles_from_the_table(degrees: int, value: float) -> None:
    assert student_quantile(0.975, degrees) == pytest.approx(value, rel=5e-3 if degrees < 5 else 2e-4)
    assert student_quantile(0.025, degrees) == pytest.approx(-value, rel=5e-3)


def test_one_task_says_nothing_about_others() -> None:
    interval = known(mean(moments([[1.0, 2.0, 3.0]])))
    assert (interval.mean, interval.low, interval.high) == (2.0, None, None)
    assert str(interval) == "2.000"
    assert mean(Moments()) is None
    assert proportion(Moments()) is None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), min_size=1, max_size=30))
def test_an_interval_holds_its_mean_and_stays_in_range(tasks: list[list[float]]) -> None:
    interval = known(proportion(moments(tasks)))
    assert interval.low is not None
    assert interval.high is not None
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1
    assert interval.low < interval.high
    assert (interval.episodes, interval.tasks) == (sum(map(len, tasks)), len(tasks))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=30), st.integers(2, 5))
def test_repeating_every_sample_narrows_nothing(values: list[float], copies: int) -> None:
    once, repeated = (known(proportion(moments([[v] * n for v in values]))) for n in (1, copies))
    assert repeated.mean == pytest.approx(once.mean)
    # The clustered interval estimates its variance: never the narrower of the two, and not much wider.
    assert once.low is not None
    assert repeated.low is not None
    assert once.high is not None
    assert repeated.high is not None
    assert repeated.high - repeated.low >= once.high - once.low - 1e-9
    if len(values) >= 15:
        assert repeated.high - repeated.low <= 1.2 * (once.high - once.low)


@pytest.mark.parametrize(
    ("tasks", "samples", "spread"), [(40, 1, 0.0), (40, 4, 0.3), (15, 8, 0.45), (100, 4, 0.0)]
)
@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_about_95_in_100_intervals_hold_the_truth(
    tasks: int, samples: int, spread: float, rate: float
) -> None:
    rng = np.random.default_rng(7)
    held = held_mean = 0
    for _ in range(400):
        easy = rng.choice([-1, 1], size=tasks) * min(spread, 1 - rate)
        draws = rng.random((tasks, samples)) < (rate + easy)[:, None]
        found = moments([row.tolist() for row in draws.astype(float)])
        success, reward = known(proportion(found)), known(mean(found))
        assert success.low is not None
        assert success.high is not None
        held += success.low <= rate <= success.high
        if reward.low is not None and reward.high is not None:
            held_mean += reward.low <= rate <= reward.high
    assert 0.92 <= held / 400 <= 0.995
    assert 0.89 <= held_mean / 400 <= 0.99
