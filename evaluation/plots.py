"""The learning curve as a picture: reward and success of each training step, evaluations beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turngym.envs.errors import MissingExtra
from turngym.evaluation.errors import EvaluationError
from turngym.evaluation.records import CurvePoint
from turngym.evaluation.report import EvalReport, stored_reports
from turngym.evaluation.store import RunStore

try:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError as error:
    raise MissingExtra(f'plots need {error.name}: pip install "turngym[train]"') from error

_TRAIN = "#4269d0"
_EVALUATIONS = ("#ff725c", "#3ca951", "#a463f2")
_GREY = "#6b7280"


def reward_curve(
    store: RunStore, path: Path | str, *, phase: str = "train", title: str | None = None
) -> Path:
    """Draw a phase's mean reward and success per step, and the run's evaluations with their 95% intervals.

    Args:
        store: of the run.
        path: the PNG to write.
        phase: whose episodes make the curve.
        title: heading of the picture.

    Returns:
        The path.

    Raises:
        EvaluationError: the phase has no scored episode.
    """
    points = [point for point in store.curve(phase) if point.reward is not None]
    if not points:
        raise EvaluationError(f"{store.path} has no scored episode of the phase {phase!r}: nothing to draw")
    evaluations = stored_reports(store)
    has_success = any(point.success is not None for point in points)
    figure = Figure(figsize=(7.0, 5.4 if has_success else 3.2), dpi=150, layout="constrained")
    axes = figure.subplots(2 if has_success else 1, 1, sharex=True, squeeze=False)[:, 0]
    for axis, what in zip(axes, ("reward", "success"), strict=False):
        _draw(axis, points, evaluations, what)
    axes[0].legend(frameon=False, fontsize=8, loc="best")
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].set_xlabel("training step", color=_GREY, fontsize=9)
    if title is not None:
        figure.suptitle(title, fontsize=11, x=0.02, ha="left")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", metadata={"Software": f"matplotlib {matplotlib.__version__}"})
    return path


def smoothed(values: Sequence[float], *, memory: float = 0.8) -> list[float]:
    """Exponential moving average without the bias of its start: Σ mᵏ v_{t−k} / Σ mᵏ."""
    out: list[float] = []
    total = weight = 0.0
    for value in values:
        total = memory * total + value
        weight = memory * weight + 1.0
        out.append(total / weight)
    return out


def _draw(
    axis: Any, points: Sequence[CurvePoint], evaluations: dict[str, list[EvalReport]], what: str
) -> None:
    known = [(point.step, value) for point in points if (value := getattr(point, what)) is not None]
    steps, values = [step for step, _ in known], [value for _, value in known]
    axis.plot(steps, values, color=_TRAIN, alpha=0.3, linewidth=0.9)
    axis.plot(steps, smoothed(values), color=_TRAIN, linewidth=1.8, label="training (smoothed)")
    for colour, (phase, reports) in zip(
        _EVALUATIONS * len(evaluations), sorted(evaluations.items()), strict=False
    ):
        shown = [
            (report.step, interval) for report in reports if (interval := getattr(report, what)) is not None
        ]
        if shown:
            means = [interval.mean for _, interval in shown]
            # Never negative, which the library refuses: a store may hold figures from before they were checked.
            below = [
                max(0.0, interval.mean - (interval.mean if interval.low is None else interval.low))
                for _, interval in shown
            ]
            above = [
                max(0.0, (interval.mean if interval.high is None else interval.high) - interval.mean)
                for _, interval in shown
            ]
            axis.errorbar(
                [step for step, _ in shown],
                means,
                yerr=[below, above],
                fmt="o",
                markersize=5,
                capsize=3,
                color=colour,
                label=f"{phase} (95% interval)",
                zorder=3,
            )
    axis.set_ylabel(f"mean {what}" if what == "reward" else what, color=_GREY, fontsize=9)
    if what == "success":
        axis.set_ylim(-0.03, 1.03)
    axis.grid(axis="y", color="#e5e7eb", linewidth=0.8)
    axis.tick_params(colors=_GREY, labelsize=8, length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.spines["bottom"].set_color("#d1d5db")
