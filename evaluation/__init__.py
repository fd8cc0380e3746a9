"""Many episodes: the runner, the durable run store, metrics and reports.

evaluate("turngym/Calculator-v0", "expert")   success and reward with 95% intervals
RunStore("runs/demo")                         every finished episode of a run
"""

if not __name__.startswith("turngym."):
    raise ImportError(
        f"import turngym.{__name__}, not {__name__}: the bare name may belong to another distribution"
    )

from turngym.evaluation import errors as errors
from turngym.evaluation.metrics import Interval
from turngym.evaluation.progress import EvalProgress
from turngym.evaluation.records import CurvePoint, EpisodeSummary, StoredEpisode
from turngym.evaluation.report import EvalReport, TagReport
from turngym.evaluation.runner import aevaluate, evaluate
from turngym.evaluation.selection import count_tasks, select_tasks
from turngym.evaluation.store import RunStore
from turngym.evaluation.transcripts import transcript, write_transcripts

__all__ = [
    "CurvePoint",
    "EpisodeSummary",
    "EvalProgress",
    "EvalReport",
    "Interval",
    "RunStore",
    "StoredEpisode",
    "TagReport",
    "aevaluate",
    "count_tasks",
    "errors",
    "evaluate",
    "select_tasks",
    "transcript",
    "write_transcripts",
]
