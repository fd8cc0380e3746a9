"""Means with 95% intervals over scored episodes, with the samples of one task as one cluster.

Samples of the same task are alike, so 4 samples of 100 tasks say less than 400 tasks do. Every interval
here treats the tasks as what was drawn, and the samples of a task as belonging together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

from pydantic import BaseModel, ConfigDict

LEVEL: Final = 0.95
"""Coverage of every interval."""

_Z: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)


class Interval(BaseModel):
    """A mean and its 95% interval."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    """The mean over episodes."""
    low: float | None
    """Lower end; None where a single task leaves it unknown."""
    high: float | None
    """Upper end."""
    episodes: int
    """Episodes that the mean is over."""
    tasks: int
    """Tasks that they belong to."""

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.mean:.3f}"
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(slots=True)
class Moments:
    """Sums over tasks, enough for a mean and its variance, however many episodes there are."""

    tasks: int = 0
    """G, tasks with at least one episode."""
    episodes: int = 0
    """N = Σ n_g, episodes."""
    total: float = 0.0
    """Σ t_g, where t_g is the sum of a task's values."""
    squares: float = 0.0
    """Σ t_g²."""
    cross: float = 0.0
    """Σ n_g t_g."""
    sizes: float = 0.0
    """Σ n_g²."""

    def add_task(self, count: int, total: float) -> None:
        """Count a task with `count` episodes whose values sum to `total`."""
        self.tasks += 1
        self.episodes += count
        self.total += total
        self.squares += total * total
        self.cross += count * total
        self.sizes += count * count

    def variance_of_mean(self) -> float:
        """G/(G−1) · Σ_g (t_g − n_g x̄)² / N², with G ≥ 2."""
        average = self.total / self.episodes
        spread = self.squares - 2 * average * self.cross + average**2 * self.sizes
        return max(spread, 0.0) * self.tasks / (self.tasks - 1) / self.episodes**2


def proportion(moments: Moments) -> Interval | None:
    """Mean of values in [0, 1] with Wilson's interval; None without episodes.

        (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n)

    With one sample per task, n is the number of tasks. With several, n is the effective sample size
    p(1−p)/v · (z/t)², where v is the variance of p over G tasks and t the quantile with G−1 degrees of
    freedom; p(1−p)/v is at most the number of episodes. Where p is 0 or 1, v says nothing and n is the
    number of tasks.

    Source: Wilson 1927; for clusters Korn & Graubard 1998 and Dean & Pagano 2015.
    """
    if not moments.episodes:
        return None
    p = moments.total / moments.episodes
    n = float(moments.tasks)
    if moments.episodes > moments.tasks > 1 and 0.0 < p < 1.0:
        variance = moments.variance_of_mean()
        effective = p * (1 - p) / variance if variance > 0 else math.inf
        n = min(effective, moments.episodes) * (_Z / _t(moments.tasks - 1)) ** 2
    centre = p + _Z**2 / (2 * n)
    half = _Z * math.sqrt(max(p * (1 - p), 0.0) / n + _Z**2 / (4 * n**2))
    scale = 1 + _Z**2 / n
    # The interval holds its mean; at 0 and 1 rounding would push it out.
    low, high = min((centre - half) / scale, p), max((centre + half) / scale, p)
    return Interval(
        mean=p, low=max(low, 0.0), high=min(high, 1.0), episodes=moments.episodes, tasks=moments.tasks
    )


def mean(moments: Moments) -> Interval | None:
    """Mean of any values with Student's interval over tasks; None without episodes.

        x̄ ± t √v,   v = G/(G−1) · Σ_g (t_g − n_g x̄)² / N²,   G−1 degrees of freedom

    Source: the cluster-robust variance of a mean (Liang & Zeger 1986); with one sample per task, v is s²/n.
    """
    if not moments.episodes:
        return None
    average = moments.total / moments.episodes
    low = high = None
    if moments.tasks > 1:
        half = _t(moments.tasks - 1) * math.sqrt(moments.variance_of_mean())
        low, high = average - half, average + half
    return Interval(mean=average, low=low, high=high, episodes=moments.episodes, tasks=moments.tasks)


def student_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t: exact for 1 and 2 degrees of freedom, else within 0.5% (series in 1/degrees).

    Source: Abramowitz & Stegun 26.7.5.
    """
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees == 2:
        a = 2 * probability - 1
        return a * math.sqrt(2 / (1 - a * a))
    z = NormalDist().inv_cdf(probability)
    series = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(series))


def _t(degrees: int) -> float:
    return student_quantile(0.5 + LEVEL / 2, degrees)
