"""Where a run's figures go: the run store always, TensorBoard by default, Weights & Biases or Trackio by one
key."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from turngym.envs.errors import MissingExtra
from turngym.evaluation.store import RunStore
from turngym.trainer.config import TrainConfig


class Tracker(Protocol):
    """Takes the figures of a step."""

    def log(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """Note the figures of a step of a phase, such as `train`."""
        ...

    def close(self) -> None:
        """Write what is still held back."""
        ...


class Trackers:
    """All trackers of a run as one. A context: leaving it closes them."""

    def __init__(self, *trackers: Tracker) -> None:
        self._trackers = trackers

    @classmethod
    def open(cls, config: TrainConfig, folder: Path, store: RunStore, *, done: Mapping[str, int]) -> Self:
        """Open those that the configuration asks for.

        Args:
            config: of the run.
            folder: of the run.
            store: the run store.
            done: the steps of each phase that are done; later figures of a killed attempt give way.

        Raises:
            MissingExtra: a library is not installed; names the extra.
        """
        trackers: list[Tracker] = [_Store(store)]
        if config.tracking.tensorboard:
            trackers.append(_TensorBoard(folder / "tensorboard", done))
        for module, project in (("wandb", config.tracking.wandb), ("trackio", config.tracking.trackio)):
            if project is not None:
                trackers.append(_Service(module, project, folder, config))
        return cls(*trackers)

    def log(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """Give the figures of a step to every tracker."""
        for tracker in self._trackers:
            tracker.log(phase, step, figures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for tracker in reversed(self._trackers):
            tracker.close()


class _Store:
    def __init__(self, store: RunStore) -> None:
        self._store = store

    def log(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        self._store.add_metrics(phase, step, dict(figures))

    def close(self) -> None:
        """The store belongs to the run."""


class _TensorBoard:
    """One folder of events for each phase: steps of the warm start and of training are not the same steps."""

    def __init__(self, folder: Path, done: Mapping[str, int]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # its generated protocol code
            self._library = _library("torch.utils.tensorboard", "train")
        self._folder = folder
        self._done = done
        self._writers: dict[str, Any] = {}

    def log(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        if phase not in self._writers:
            done = self._done.get(phase.split("/")[0])
            purge = None if done is None else done + 1
            place = self._folder / phase.replace("/", "-")
            self._writers[phase] = self._library.SummaryWriter(str(place), purge_step=purge)
        for name, value in figures.items():
            self._writers[phase].add_scalar(f"{phase}/{name}", value, step)

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


class _Service:
    """Weights & Biases, and Trackio, which spells the same calls but knows no metric as an axis."""

    def __init__(self, module: str, project: str, folder: Path, config: TrainConfig) -> None:
        self._library = _library(module, module)
        self._library.init(project=project, name=folder.name, config=config.model_dump(mode="json"))
        self._phases: set[str] = set()

    def log(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        # Each phase counts its own steps: on one axis for all, wandb drops what would go backwards.
        if phase not in self._phases and hasattr(self._library, "define_metric"):
            self._library.define_metric(f"{phase}/*", step_metric=f"{phase}/step")
        self._phases.add(phase)
        named = {f"{phase}/{name}": value for name, value in figures.items()}
        self._library.log(named | {f"{phase}/step": step})

    def close(self) -> None:
        self._library.finish()


def _library(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtra(f'{module} is not installed: pip install "turngym[{extra}]"') from error
