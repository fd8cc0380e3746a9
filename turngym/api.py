"""The Python face: `rollout`, `evaluate` and `train`, usable also where an event loop already runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium

from turngym.agents.driver import EnvDriver
from turngym.agents.limits import Limits
from turngym.agents.protocols import Agent, NoiseKey
from turngym.agents.rollout import rollout as _rollout
from turngym.agents.specs import make_agent
from turngym.agents.sync import run_sync
from turngym.agents.types import Trajectory
from turngym.envs import Task, make
from turngym.evaluation.runner import evaluate as evaluate

if TYPE_CHECKING:
    from turngym.trainer.config import TrainConfig
    from turngym.trainer.report import TrainReport

_NO_LIMITS = Limits()


def rollout(
    env: str | gymnasium.Env[Any, Any],
    agent: str | Agent = "expert",
    *,
    task: Task | str | None = None,
    seed: int = 0,
    limits: Limits = _NO_LIMITS,
) -> Trajectory:
    """Play one episode.

    Example:
        >>> turngym.rollout("turngym/Calculator-v0", "expert", seed=3).reward
        1.0

    Args:
        env: an environment, bare or in wrappers, or its id. One that is passed in stays open.
        agent: an agent, or its spec.
        task: a task or its id; None lets `seed` draw one.
        seed: of the reset and of the agent's sampling.
        limits: of the episode.

    Raises:
        UnknownEnv, UnknownTask, BadSpec: there is no such environment, task or agent.
    """
    environment = make(env) if isinstance(env, str) else env
    player = make_agent(agent, EnvDriver(environment).env_id) if isinstance(agent, str) else agent

    async def play() -> Trajectory:
        name = task.id if isinstance(task, Task) else task or f"seed-{seed}"
        noise = NoiseKey(run_seed=seed, step=0, task=name, sample=0)
        try:
            return await _rollout(environment, player, task=task, seed=seed, noise=noise, limits=limits)
        finally:
            if isinstance(agent, str):
                await player.close()
            if isinstance(env, str):
                environment.close()

    return run_sync(play)


def train(
    config: str | Path | Mapping[str, Any] | TrainConfig,
    *,
    out: str | Path,
    resume: bool = False,
    **overrides: Any,
) -> TrainReport:
    """Train a policy.

    Args:
        config: a TOML file, a mapping of the same shape, or a `TrainConfig`.
        out: folder of the run.
        resume: go on with the run that the folder holds.
        overrides: top-level keys that replace those of the file or mapping, such as `seed=1`.

    Raises:
        ConfigError: it cannot work; says which key and what to write.
    """
    from turngym.trainer.config import TrainConfig, load_config, parse_config
    from turngym.trainer.loop import train as run_training

    if isinstance(config, (str, Path)):
        chosen = load_config(config)
    else:
        chosen = config if isinstance(config, TrainConfig) else parse_config(config)
    if overrides:
        chosen = parse_config(chosen.model_dump(exclude_none=True) | overrides)
    return run_training(chosen, out=Path(out), resume=resume)
