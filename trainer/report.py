"""What a run leaves behind: the trained model, the reward curve, some transcripts, and a summary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from turngym.evaluation.plots import reward_curve
from turngym.evaluation.report import EvalReport
from turngym.evaluation.transcripts import write_transcripts
from turngym.trainer import checkpoint
from turngym.trainer.run import Run

TRANSCRIPTS = 4
"""How many episodes of an evaluation are written out."""


@dataclass(frozen=True, slots=True)
class TrainReport:
    """The result of a training run."""

    folder: Path
    """Where the run lives: store, configuration, checkpoints, the model in `final/`, curve, transcripts."""
    steps: int
    """Training steps completed."""
    wall_s: float
    """Wall time of this call, in seconds."""
    before: EvalReport | None
    """Evaluation after the warm start, before training; None without evaluation, or if the run was
    interrupted."""
    after: EvalReport | None
    """Evaluation after the last step."""
    interrupted: bool = False
    """True if somebody ended the run before its last step: resume it."""

    @property
    def model(self) -> Path:
        """The trained model, an ordinary model folder; not there if the run was interrupted."""
        return self.folder / "final"

    def __str__(self) -> str:
        lines = [f"{self.steps} steps in {self.wall_s:.0f} s"]
        for name, report in (("before", self.before), ("after", self.after)):
            if report is not None:
                lines.append(f"  {name:<7} success {report.success}  reward {report.reward}")
        lines.append(f"  run     {self.folder}" + (" (interrupted: resume it)" if self.interrupted else ""))
        return "\n".join(lines)


def write_results(run: Run, report: TrainReport) -> None:
    """Write the trained model, the curve, and transcripts of the first and the last evaluation into the run's
    folder.

    Raises:
        CheckpointError: the model cannot be written.
    """
    checkpoint.write_folder(report.model, run.write_model)
    if any(point.reward is not None for point in run.store.curve("train")):
        reward_curve(
            run.store, run.folder / "curve.png", title=f"{run.config.algorithm.name} on {run.config.env.id}"
        )
    for phase, step in shown_episodes(run):
        write_transcripts(run.store, run.folder / "transcripts", phase=phase, step=step, count=TRANSCRIPTS)


def shown_episodes(run: Run) -> list[tuple[str, int]]:
    """The first and the last evaluation as (phase, step); the last training step where nothing was
    evaluated."""
    evaluations = sorted(
        ((step, phase) for phase, step in run.store.phases() if phase.startswith("eval/")),
        key=lambda at: at[0],
    )
    if evaluations:
        return [(phase, step) for step, phase in dict.fromkeys((evaluations[0], evaluations[-1]))]
    return [("train", run.step)]
