"""What a run leaves behind: the trained model, the reward curve, some transcripts, and a summary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from turngym.evaluation.plots import plot_curve
from turngym.evaluation.report import EvalReport
from turngym.evaluation.transcripts import write_transcripts
from turngym.trainer import checkpoint
from turngym.trainer.run import Run


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
    """Evaluation after the warm start, before training; None without evaluation, or if the run was interrupted."""
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
    """Write the trained model, the curve and the transcripts into the run's folder.

    Raises:
        CheckpointError: the model cannot be written.
    """
    checkpoint.write_folder(report.model, run.write_model)
    plot_curve(run.store, run.folder / "curve.png")
    write_transcripts(run.store, run.folder / "transcripts.txt")
