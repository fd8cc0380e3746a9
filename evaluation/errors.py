"""Errors of the evaluation layer.

EvaluationError(Exception)
├── StoreError(RuntimeError)         the run store could not do what was asked; committed episodes are safe
│   ├── StoreNotFound                there is no run store at that path
│   ├── NotAStore                    the file is something else, damaged, or of a newer version
│   ├── StoreLocked                  another process is writing this run
│   ├── StoreFull                    no space left on the disk
│   └── DuplicateEpisode             that episode is in the store already
├── RunExists(FileExistsError)       the folder holds an evaluation, and nobody said to resume it
└── RunMismatch(ValueError)          the folder holds a different evaluation: nothing to resume
"""

from __future__ import annotations


class EvaluationError(Exception):
    """Root of everything that evaluation raises on purpose."""


class StoreError(EvaluationError, RuntimeError):
    """The run store failed; whatever was committed before is safe."""


class StoreNotFound(StoreError):
    """There is no run store there."""


class NotAStore(StoreError):
    """The file is not a run store that this version can read."""


class StoreLocked(StoreError):
    """Another process holds the store for writing."""


class StoreFull(StoreError):
    """The disk is full."""


class DuplicateEpisode(StoreError):
    """An episode of that phase, step, task and sample is stored already."""


class RunExists(EvaluationError, FileExistsError):
    """There is an evaluation in that folder already."""


class RunMismatch(EvaluationError, ValueError):
    """The evaluation in that folder was started with other options."""
