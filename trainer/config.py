"""What a training run is told: TOML read into frozen records that refuse what they do not know.

    config = load_config("calculator.toml", ["optim.lr=1e-3", "model.path=tiny"])

What can be checked without loading a model is checked in `preflight.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from turngym.trainer.algorithms import PRESETS, Algorithm
from turngym.trainer.critic import Trunk
from turngym.trainer.errors import ConfigError
from turngym.trainer.health import HealthBounds
from turngym.trainer.schedules import SCHEDULES
from turngym.trainer.toml import is_too_deep, read_toml, read_value, shown, write_toml


def _schedule(name: str) -> str:
    if name not in SCHEDULES:
        raise ValueError(f"no such schedule; there are {', '.join(SCHEDULES)}")
    return name


def _tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value  # TOML has arrays only


def _project(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write the name of the project to log to, or leave the key out")
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_tuple)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Project = Annotated[str, BeforeValidator(_project)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class EnvConfig(_Section):
    """Where the episodes come from."""

    id: str
    """Id of the environment."""
    split: str = "train"
    """Split that training tasks are drawn from."""
    kwargs: dict[str, Any] = {}
    """Further arguments of `make`."""
    system_prompt: str | None = None
    """Replaces the environment's own system message, or comes before its prompt."""
    tools: Names | None = None
    """Names of the tools to offer; None for all."""
    task_ids: Names | None = None
    """Train on these tasks of the split only."""
    task_tags: Names | None = None
    """Train on tasks with at least one of these tags only."""


class ModelConfig(_Section):
    """The policy."""

    path: str
    """`tiny`, `smollm2-135m`, or a local folder in Hugging Face's format."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights. AdamW keeps float32 masters of bfloat16 weights."""
    device: str = "auto"
    """Where it runs: `cpu`, `cuda`, or `auto`."""
    renderer: str = "auto"
    """Who renders its chat template."""


class SftConfig(_Section):
    """The warm start: imitate a reference policy of the environment before reinforcement learning begins."""

    policy: str = "expert"
    """Which reference policy."""
    episodes: int = Field(default=1000, ge=1)
    """Episodes that it plays."""
    steps: int = Field(default=200, ge=1)
    """Optimiser steps."""
    lr: float = Field(default=1e-3, gt=0)
    """Peak learning rate."""
    schedule: Annotated[str, AfterValidator(_schedule)] = "linear"
    """Shape of the learning rate after a warm-up of a twentieth of the steps."""
    batch_tokens: int = Field(default=8192, ge=1)
    """Tokens of a step's episodes, context included."""


class CriticConfig(_Section):
    """The value function, for algorithms that have one."""

    trunk: Trunk = "shared"
    """On the policy's own trunk, or on a copy of it that learns apart."""
    lr: float | None = Field(default=None, gt=0)
    """Peak learning rate of a critic with its own trunk; None for the policy's."""
    warmup_steps: int = Field(default=0, ge=0)
    """Training steps at the start in which the critic learns alone."""


class RolloutConfig(_Section):
    """The episodes of one training step."""

    groups_per_step: int = Field(default=16, ge=1)
    """Tasks per step."""
    group_size: int = Field(default=8, ge=1)
    """Episodes of each task."""
    temperature: float = Field(default=1.0, gt=0)
    """Divides the logits, in sampling and in training."""
    max_turn_tokens: int = Field(default=256, ge=1)
    """The most tokens of one turn."""
    max_turns: int = Field(default=16, ge=1)
    """Actions after which an episode is cut."""
    max_tokens: int = Field(default=2048, ge=2)
    """Tokens of an episode's context."""
    max_seconds: float = Field(default=600.0, gt=0)
    """Wall time of an episode."""
    concurrency: int = Field(default=64, ge=1)
    """Episodes at once."""
    retries: int = Field(default=2, ge=0)
    """Fresh attempts of an episode that failed through no fault of the agent's."""


class OptimConfig(_Section):
    """AdamW."""

    lr: float = Field(default=1e-5, gt=0)
    """Peak learning rate."""
    schedule: Annotated[str, AfterValidator(_schedule)] = "constant"
    """Shape of the learning rate after the warm-up: `constant`, `linear` or `cosine`."""
    warmup_steps: int = Field(default=0, ge=0)
    """Optimiser steps of linear warm-up."""
    betas: Annotated[tuple[Decay, Decay], BeforeValidator(_tuple)] = (0.9, 0.99)
    """Decay of the running moments."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decoupled; on matrices only."""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """The gradient is scaled down to this norm."""
    micro_batch_tokens: int = Field(default=16384, ge=1)
    """Positions of a micro-batch, padding included: what bounds the memory."""
    recompute: bool = False
    """Keep only the inputs of the layers, and compute the rest again in the backward pass: slower, less
    memory."""


class EvalConfig(_Section):
    """Evaluation before, after and during training."""

    split: str | None = None
    """Split of the tasks; None for `test` where there is one, or else that of training."""
    tasks: int = Field(default=100, ge=0)
    """How many tasks; 0 for no evaluation. A smaller split is taken whole."""
    samples: int = Field(default=1, ge=1)
    """Episodes of each task."""
    temperature: float | None = Field(default=None, ge=0)
    """None for that of the rollouts."""
    every: int = Field(default=0, ge=0)
    """Training steps between evaluations; 0 for only before and after."""


class CheckpointConfig(_Section):
    """Saving, and what a resumed run continues from."""

    every: int = Field(default=10, ge=1)
    """Training steps between checkpoints."""
    keep: int = Field(default=2, ge=1)
    """How many of the last ones to keep."""


class TrackingConfig(_Section):
    """Where figures go, besides the run store."""

    tensorboard: bool = True
    """Write event files into the run folder."""
    wandb: Project | None = None
    """Project to log to with Weights & Biases."""
    trackio: Project | None = None
    """Project to log to with Trackio."""


def _read_algorithm(data: object) -> object:
    """A preset's name and the fields that differ from it become a whole row.

    TOML has no null: where a field may be absent, the string "none" says so.
    """
    if not isinstance(data, Mapping) or "preset" not in data:
        return data
    preset = data["preset"]
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ValueError(
            f"no preset {shown(repr(preset))}{_nearest(shown(preset), PRESETS)}; "
            f"there are {', '.join(sorted(PRESETS))}"
        )
    row = PRESETS[preset].model_dump()
    absent = {key for key, field in Algorithm.model_fields.items() if field.default is None}
    changes = {key: None if value == "none" and key in absent else value for key, value in data.items()}
    return {key: value for key, value in (row | changes).items() if key != "preset"}


class TrainConfig(_Section):
    """A training run."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    """Every random number of the run follows from it."""
    steps: int = Field(ge=0)
    """Training steps: each collects episodes and learns from them."""
    env: EnvConfig
    """Where the episodes come from."""
    model: ModelConfig
    """The policy."""
    sft: SftConfig | None = None
    """The warm start, if any."""
    algorithm: Annotated[Algorithm, BeforeValidator(_read_algorithm)]
    """A preset's name and the fields that differ from it."""
    critic: CriticConfig = CriticConfig()
    """The value function, for algorithms that have one."""
    rollout: RolloutConfig = RolloutConfig()
    """The episodes of one step."""
    optim: OptimConfig = OptimConfig()
    """AdamW."""
    eval: EvalConfig = EvalConfig()
    """Evaluation."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    """Saving."""
    health: HealthBounds = HealthBounds()
    """When to stop."""
    tracking: TrackingConfig = TrackingConfig()
    """Where figures go."""

    @property
    def episodes_per_step(self) -> int:
        """Episodes that one training step collects."""
        return self.rollout.groups_per_step * self.rollout.group_size


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> TrainConfig:
    """Read a TOML file.

    Args:
        path: the file.
        overrides: `key.path=value` each; the value is read as TOML, or as a plain string where it is none.

    Raises:
        ConfigError: no such file, no TOML, or a configuration that makes no sense; says which key and what to
            write.
    """
    data = read_toml(path)
    for override in overrides:
        _apply(data, override)
    return parse_config(data)


def parse_config(data: Mapping[str, Any]) -> TrainConfig:
    """Check a mapping of the shape of the TOML file. Types are strict: `true` is no number, `"3"` neither.

    Raises:
        ConfigError: as `load_config`.
    """
    if is_too_deep(data):
        raise ConfigError("the configuration is nested too deeply: no key needs that")
    _check_keys(TrainConfig, data, ())
    try:
        return TrainConfig.model_validate(data, strict=True)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(problem) for problem in error.errors())) from error


def _apply(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    path = [part.strip() for part in key.split(".")]
    if not equals or not all(path):
        raise ConfigError(f"--set {shown(override)}: write it as key.path=value, such as optim.lr=1e-4")
    try:
        value = read_value(text)
    except ValueError as error:
        raise ConfigError(f"--set {shown(override)}: {error}") from error
    table: Any = data
    for name in path[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise ConfigError(f"--set {shown(override)}: {shown(name)} is a value, not a section")
    table[path[-1]] = value


def _check_keys(model: type[BaseModel], data: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """Refuse unknown keys by the name of their nearest neighbour."""
    known = set(model.model_fields) | ({"preset"} if model is Algorithm else set())
    for key, value in data.items():
        if key not in known:
            where = ".".join((*path, key))
            raise ConfigError(
                f"unknown key {shown(where)}{_nearest(key, known)}. Known here: {', '.join(sorted(known))}"
            )
        section = _section(model, key)
        if section is not None and isinstance(value, Mapping):
            _check_keys(section, value, (*path, key))


def _section(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The record that a key holds, if it holds one."""
    field = model.model_fields.get(key)
    kind = None if field is None else field.annotation
    options = getattr(kind, "__args__", (kind,))
    return next((o for o in options if isinstance(o, type) and issubclass(o, BaseModel)), None)


def _nearest(name: str, known: object) -> str:
    matches = difflib.get_close_matches(name, list(known), n=1)  # type: ignore[call-overload]
    return f": did you mean {matches[0]}?" if matches else ""


def _explain(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "missing":
        return f"{key} is missing: every run needs it"
    value = problem["input"]
    return f"{key}: {message}" + ("" if isinstance(value, Mapping) else f" (it is {_quoted(value)})")


def _quoted(value: object) -> str:
    return shown(repr(value) if isinstance(value, str) else value)


def to_toml(config: TrainConfig) -> str:
    """The whole configuration as TOML that `load_config` reads back to the same one."""
    return write_toml(config.model_dump(exclude_none=True))
