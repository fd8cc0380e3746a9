"""Checks of a configuration against the environment and the disk, before any model is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from turngym.agents.models import BUILT_IN
from turngym.envs import Env, ReferencePolicy, make, reference_policy
from turngym.envs.errors import EnvError
from turngym.trainer.algorithms import PRESETS
from turngym.trainer.collect import TaskOrder
from turngym.trainer.config import EnvConfig, TrainConfig
from turngym.trainer.errors import ConfigError

T = TypeVar("T")


def preflight(config: TrainConfig) -> None:
    """Find what cannot work.

    Raises:
        ConfigError: names the keys, and says what to write instead.
    """
    _check_algorithm(config)
    _check_model(config.model.path)
    env = open_env(config.env)
    try:
        TaskOrder(env.tasks, config.env, seed=config.seed)
        if config.eval.tasks:
            eval_split(config, env)
    finally:
        env.close()
    teacher_policy(config)


def open_env(config: EnvConfig) -> Env:
    """Make the environment of a run.

    Raises:
        ConfigError: it does not exist, or refuses its arguments.
    """
    return _explained("env", lambda: make(config.id, split=config.split, **env_kwargs(config)))


def env_kwargs(config: EnvConfig) -> dict[str, Any]:
    """Arguments of the environment; the choice of tools is one of them."""
    return config.kwargs | ({} if config.tools is None else {"only_tools": config.tools})


def eval_split(config: TrainConfig, env: Env) -> str:
    """The split to evaluate on: the one asked for, or else `test` where there is one, or else that of
    training.

    Raises:
        ConfigError: there is no such split.
    """
    splits = env.tasks.splits
    if config.eval.split is None:
        return "test" if "test" in splits else config.env.split
    if config.eval.split not in splits:
        raise ConfigError(
            f"eval.split = {config.eval.split!r}, but {env.id} has {', '.join(splits)}: write one of these"
        )
    return config.eval.split


def teacher_policy(config: TrainConfig) -> ReferencePolicy | None:
    """The policy that the warm start imitates; None if there is no warm start.

    Raises:
        ConfigError: the environment has no such policy.
    """
    sft = config.sft
    if sft is None:
        return None
    return _explained(
        "sft.policy", lambda: reference_policy(config.env.id, sft.policy, **env_kwargs(config.env))
    )


def _check_algorithm(config: TrainConfig) -> None:
    algorithm, rollout = config.algorithm, config.rollout
    if algorithm.needs_group and rollout.group_size < 2:
        alone = ", ".join(name for name, row in PRESETS.items() if not row.needs_group)
        raise ConfigError(
            f"rollout.group_size = {rollout.group_size}, but {algorithm.name} compares the episodes of a "
            "group, and one alone learns nothing: write group_size = 8 (at least 2), or choose a preset "
            f"without groups ({alone})"
        )
    if algorithm.minibatches > config.episodes_per_step:
        raise ConfigError(
            f"algorithm.minibatches = {algorithm.minibatches}, but a step has only "
            f"{config.episodes_per_step} episodes (rollout.groups_per_step · rollout.group_size): "
            "ask for fewer mini-batches or more episodes"
        )


def _check_model(spec: str) -> None:
    folder = Path(spec).expanduser()
    if spec not in BUILT_IN and not (folder / "config.json").is_file():
        problem = "has no config.json" if folder.is_dir() else "does not exist"
        raise ConfigError(
            f"model.path = {spec!r}: the folder {problem}. Write {' or '.join(BUILT_IN)}, "
            "or a folder as save_pretrained writes it"
        )


def _explained(key: str, attempt: Callable[[], T]) -> T:
    try:
        return attempt()
    except (EnvError, ImportError, TypeError, ValueError) as error:
        raise ConfigError(f"{key}: {error}") from error
