"""Checks of a configuration against the environment and the disk, before any model is loaded."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch

from turngym.agents.models import BUILT_IN
from turngym.envs import Env, ReferencePolicy, make, reference_policy
from turngym.envs.registry import what_went_wrong
from turngym.evaluation.selection import select_tasks
from turngym.trainer.algorithms import PRESETS
from turngym.trainer.collect import TaskOrder
from turngym.trainer.config import EnvConfig, TrackingConfig, TrainConfig
from turngym.trainer.errors import ConfigError
from turngym.trainer.toml import shown

T = TypeVar("T")


def preflight(config: TrainConfig) -> None:
    """Find what cannot work.

    Raises:
        ConfigError: names the keys, and says what to write instead.
    """
    _check_algorithm(config)
    _check_model(config.model.path)
    _check_device(config.model.device)
    _check_tracking(config.tracking)
    env = open_env(config.env)
    try:
        tasks = f"the tasks of {env.id} cannot be read"
        _explained("env", tasks, lambda: TaskOrder(env.tasks, config.env, seed=config.seed).at(0))
        if config.eval.tasks:
            _explained("eval", tasks, lambda: _check_evaluation(config, env))
    finally:
        env.close()
    teacher_policy(config)


def open_env(config: EnvConfig) -> Env:
    """Make the environment of a run.

    Raises:
        ConfigError: it does not exist, or refuses its arguments.
    """
    if "split" in config.kwargs:
        raise ConfigError("env.kwargs.split: the split has a key of its own, env.split")
    given = f" with env.kwargs = {shown(config.kwargs)}" if config.kwargs else ""
    return _explained(
        "env",
        f"the environment {config.id} could not be made{given}",
        lambda: make(config.id, split=config.split, **env_kwargs(config)),
    )


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
        "sft.policy",
        f"the policy {sft.policy!r} cannot be had",
        lambda: reference_policy(config.env.id, sft.policy, **env_kwargs(config.env)),
    )


def _check_evaluation(config: TrainConfig, env: Env) -> None:
    split, tags = eval_split(config, env), config.env.task_tags
    try:
        next(select_tasks(env.tasks, split, limit=config.eval.tasks, tags=tags))
    except ValueError as error:
        raise ConfigError(
            f"eval.split: {error}: write another split, or eval.tasks = 0 for no evaluation"
        ) from error


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
    try:
        folder = Path(spec).expanduser()
    except RuntimeError as error:
        raise ConfigError(
            f"model.path = {spec!r}: {spec.partition('/')[0]} is nobody's home folder here"
        ) from error
    if spec not in BUILT_IN and not (folder / "config.json").is_file():
        problem = "has no config.json" if folder.is_dir() else "does not exist"
        raise ConfigError(
            f"model.path = {spec!r}: the folder {problem}. Write {' or '.join(BUILT_IN)}, "
            "or a folder as save_pretrained writes it"
        )


def _check_device(name: str) -> None:
    kind = torch.accelerator.current_accelerator(check_available=True)
    there = ["cpu"] + (
        [] if kind is None else [f"{kind.type}:{n}" for n in range(torch.accelerator.device_count())]
    )
    if name not in {"auto", *there, *(device.partition(":")[0] for device in there)}:
        raise ConfigError(
            f"model.device = {name!r}, but this machine has {', '.join(there)}: write one of these, or auto"
        )


def _check_tracking(tracking: TrackingConfig) -> None:
    for module, extra, wanted, instead in (
        ("tensorboard", "train", tracking.tensorboard, "write tracking.tensorboard = false"),
        ("wandb", "wandb", tracking.wandb is not None, "leave the key out"),
        ("trackio", "trackio", tracking.trackio is not None, "leave the key out"),
    ):
        if wanted and not _is_installed(module):
            raise ConfigError(
                f"tracking.{module} needs a package that is not installed: "
                f'pip install "turngym[{extra}]", or {instead}'
            )


def _is_installed(module: str) -> bool:
    if module in sys.modules:  # None stands for one that must not be imported
        return sys.modules[module] is not None
    return importlib.util.find_spec(module) is not None


def _explained(key: str, otherwise: str, attempt: Callable[[], T]) -> T:
    """The result of an attempt in which an environment has a say, whose author may raise anything."""
    try:
        return attempt()
    except ConfigError:
        raise
    except Exception as error:
        raise ConfigError(f"{key}: {what_went_wrong(otherwise, error)}") from error
