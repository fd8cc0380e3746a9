"""Checkpoints that are there whole or not at all: ordinary model folders, with the trainer's state in one
more file.

    checkpoints/step-000010/    weights, tokenizer, chat template, generation config, trainer.pt
    checkpoints/step-000020/

A checkpoint is written beside its place, forced to disk, and then renamed: a process killed at any moment
leaves the last complete one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from turngym.agents.errors import AgentError
from turngym.trainer.errors import CheckpointError
from turngym.trainer.finite import BROKEN, first_not_finite

STATE_FILE = "trainer.pt"
"""Optimiser, critic and counters; everything else in the folder is the model's."""

_UNFINISHED = ".unfinished-"
_NAME = re.compile(r"step-(\d{6,})")


def name_of(step: int) -> str:
    """Name of a checkpoint's folder."""
    return f"step-{step:06d}"


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """The complete checkpoints in a folder as (step, path), oldest first."""
    found = [(_NAME.fullmatch(path.name), path) for path in folder.glob("step-*") if path.is_dir()]
    return sorted((int(match[1]), path) for match, path in found if match is not None)


def latest(folder: Path) -> Path | None:
    """The last complete checkpoint, if there is one."""
    return next((path for _, path in reversed(checkpoints(folder))), None)


def save(
    folder: Path, step: int, state: Mapping[str, Any], write_model: Callable[[Path], object], *, keep: int
) -> Path:
    """Write the checkpoint of a step and remove the oldest beyond `keep`.

    Args:
        folder: where checkpoints live.
        step: training steps completed.
        state: tensors, numbers, strings and containers of them.
        write_model: writes the model's files into an empty folder.
        keep: how many to keep, this one included.

    Raises:
        CheckpointError: it cannot be written (a full disk, say). Those there before are untouched.
    """
    place = folder / name_of(step)
    if not place.exists():
        write_folder(place, lambda path: _write(path, state, write_model))
    for _, old in checkpoints(folder)[:-keep]:
        _remove(old)
    return place


def write_folder(place: Path, write: Callable[[Path], object]) -> None:
    """Fill a new folder so that it appears whole or not at all; one that is already there is replaced.

    Raises:
        CheckpointError: it cannot be written.
    """
    unfinished = place.with_name(_UNFINISHED + place.name)
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write(unfinished)
        _sync(unfinished)
        if place.exists():
            _remove(place)
        unfinished.rename(place)
        _sync_folder(place.parent)
    except Exception as error:  # a full disk is an OSError, torch's RuntimeError or safetensors' own error
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CheckpointError(
            f"cannot write {place}: {error}. What was saved before is untouched: "
            "free some space (or choose another --out) and run again with --resume"
        ) from error


def load_state(checkpoint: Path, keys: Collection[str] = ()) -> dict[str, Any]:
    """The trainer's state of a checkpoint.

    Args:
        checkpoint: its folder.
        keys: what the state must have.

    Raises:
        CheckpointError: it is not there, damaged, or something else.
    """
    with usable(checkpoint):
        state = torch.load(checkpoint / STATE_FILE, map_location="cpu", weights_only=True)
        if not isinstance(state, dict):
            raise ValueError(f"{STATE_FILE} is no state of a trainer, but a {type(state).__name__}")
        if missing := [key for key in keys if key not in state]:
            raise ValueError(f"{STATE_FILE} has no {', '.join(missing)}")
        if (broken := first_not_finite(state)) is not None:
            raise ValueError(f"{broken} in {STATE_FILE} {BROKEN}")
    return state


@contextlib.contextmanager
def usable(checkpoint: Path) -> Iterator[None]:
    """Within the block, whatever fails shows that the checkpoint is damaged or does not fit the run.

    Raises:
        CheckpointError: says what is wrong, and which checkpoint to go on from instead.
    """
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError):  # says nothing about the checkpoint
        raise
    except Exception as error:  # torch and transformers raise almost anything over a damaged file
        kind = "" if isinstance(error, ValueError | AgentError) else f"{type(error).__name__}: "
        why = (kind + next(iter(str(error).splitlines()), "it is damaged")).rstrip(".")
        raise CheckpointError(f"cannot resume from {checkpoint}: {why}. {_instead(checkpoint)}") from error


def _instead(checkpoint: Path) -> str:
    there = [path for _, path in checkpoints(checkpoint.parent)]
    before = there[: there.index(checkpoint)] if checkpoint in there else there
    if before:
        return f"Delete that folder to resume from the one before it, {before[-1].name}"
    return "There is none before it: put it back whole, or begin again in another folder (--out)"


def clean(folder: Path) -> None:
    """Remove what a killed process left unfinished."""
    for pattern in (f"{_UNFINISHED}*", f".{_UNFINISHED}*"):  # the second: a model inside of one
        for path in folder.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)


def _write(path: Path, state: Mapping[str, Any], write_model: Callable[[Path], object]) -> None:
    write_model(path)
    torch.save(dict(state), path / STATE_FILE)


def _sync(folder: Path) -> None:
    """Force a folder's files to disk, then its list of names."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            _sync_folder(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(place: Path) -> None:
    """Take a checkpoint away; half-deleted, it must not look like one."""
    doomed = place.with_name(f"{_UNFINISHED}{place.name}-old")
    shutil.rmtree(doomed, ignore_errors=True)
    place.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
