"""What was typed, and what it means: `key=value` arguments, environments by id, folders to write into."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from turngym.cli.console import Misuse
from turngym.envs import Env, make
from turngym.envs.errors import EnvError
from turngym.envs.registry import what_went_wrong
from turngym.trainer.toml import read_value, shown


def parse_pairs(option: str, pairs: Sequence[str]) -> dict[str, Any]:
    """A mapping from `key=value` texts, whose values are read as TOML, or as plain text where they are none.

    Raises:
        Misuse: one has no key, no `=`, or more than one value.
    """
    return dict(_pair(option, pair) for pair in pairs)


def _pair(option: str, pair: str) -> tuple[str, Any]:
    key, equals, text = pair.partition("=")
    if not equals or not key.strip():
        raise Misuse(f"{option} {shown(pair)}: write it as key=value")
    try:
        return key.strip(), read_value(text)
    except ValueError as error:
        raise Misuse(f"{option} {shown(pair)}: {error}") from error


@contextlib.contextmanager
def opened(env_id: str, arguments: dict[str, Any]) -> Iterator[Env]:
    """An environment for as long as the block runs.

    Raises:
        UnknownEnv, UnknownArgument: there is none such.
        Misuse: it refuses its arguments, or cannot be made here at all.
    """
    try:
        env = make(env_id, **arguments)
    except EnvError:
        raise
    except Exception as error:
        given = ", ".join(f"--env {shown(f'{key}={value!r}')}" for key, value in arguments.items())
        what = f"the environment {env_id} could not be made" + (f" with {given}" if given else "")
        raise Misuse(what_went_wrong(what, error)) from error
    with contextlib.closing(env):
        yield env


def check_folder(option: str, folder: Path) -> None:
    """See that a run can be written into a folder, which need not be there yet.

    Raises:
        Misuse: it is a file, or nothing can be written there.
    """
    place = next((place for place in (folder, *folder.absolute().parents) if place.exists()), Path("/"))
    if not place.is_dir():
        raise Misuse(f"{option} {folder}: {place} is a file, not a folder; choose another")
    if not os.access(place, os.W_OK | os.X_OK):
        raise Misuse(
            f"{option} {folder}: nobody may write in {place}; choose another, or change its permissions"
        )
