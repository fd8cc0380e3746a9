"""Everything that a run holds while it goes on, and how it is begun, saved, and taken up again.

OUT/run.sqlite      episodes and figures           OUT/checkpoints/step-…   to resume from
OUT/config.toml     the resolved configuration     OUT/final/               the trained model
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from turngym.agents.engines.hf import HFEngine
from turngym.agents.local import stop_ids_of
from turngym.agents.models import LoadedModel, load_model, save_checkpoint
from turngym.agents.protocols import Renderer
from turngym.agents.rendering import choose_renderer
from turngym.evaluation.store import STORE_NAME, RunStore
from turngym.trainer import checkpoint
from turngym.trainer.config import TrainConfig, to_toml
from turngym.trainer.critic import Critic
from turngym.trainer.errors import ConfigError
from turngym.trainer.forward import check_model, disable_dropout
from turngym.trainer.optim import Optimiser
from turngym.trainer.update import Learner

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints."""

REFERENCE = "reference"
"""Folder of the policy that a KL term holds on to."""

WARM_START = "warm-start"
"""Folder of an unfinished warm start."""

PARTS = (CHECKPOINTS, REFERENCE, WARM_START, "config.toml", "final", "transcripts")
"""What a run writes beside its store, and would replace."""

CHANGEABLE = frozenset({"steps", "checkpoint", "health", "tracking"})
"""Keys that may differ when a run is resumed; the others would make it another run."""


@dataclass(slots=True)
class Run:
    """A training run in progress."""

    config: TrainConfig
    """What it was told."""
    folder: Path
    """Where it lives."""
    store: RunStore
    """Its episodes and figures."""
    loaded: LoadedModel
    """The policy, its tokenizer and name."""
    engine: HFEngine
    """Samples from the policy, whose module it shares."""
    renderer: Renderer
    """Messages to tokens and back."""
    learner: Learner
    """What learns."""
    step: int
    """Training steps completed."""
    warm: bool
    """True once the warm start is done, or if there is none."""
    warm_optimiser: dict[str, Any] | None = None
    """Where an interrupted warm start goes on from."""

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are kept."""
        return self.folder / CHECKPOINTS

    def save(self) -> Path:
        """Write the checkpoint of the steps completed.

        Raises:
            CheckpointError: it cannot be written.
        """
        critic = self.learner.critic
        state: dict[str, Any] = {
            "step": self.step,
            "warm": self.warm,
            "optimisers": [optimiser.state_dict() for optimiser in self.learner.optimisers],
            "critic": None if critic is None else critic.state_dict(),
        }
        return checkpoint.save(
            self.checkpoints, self.step, state, self.write_model, keep=self.config.checkpoint.keep
        )

    @property
    def steps_done(self) -> dict[str, int]:
        """Steps completed, by phase."""
        warm = 0 if self.warm_optimiser is None else int(self.warm_optimiser["updates"])
        return {"train": self.step, "eval": self.step} | ({} if self.warm else {"sft": warm})

    def save_warm_start(self, optimiser: Optimiser) -> None:
        """Write where the warm start is.

        Raises:
            CheckpointError: it cannot be written.
        """
        state = {"optimiser": optimiser.state_dict()}
        checkpoint.save(self.folder / WARM_START, optimiser.updates, state, self.write_model, keep=1)

    def end_warm_start(self, optimiser: Optimiser) -> None:
        """Write the checkpoint that training begins at: what learns from now on starts from what was imitated.

        Args:
            optimiser: of the warm start.
        """
        self.warm, self.warm_optimiser = True, None
        self.learner = build_learner(self.config, self.loaded.model)
        self.learner.optimisers[0].continue_from(optimiser)
        self.save()
        shutil.rmtree(self.folder / WARM_START, ignore_errors=True)

    def write_model(self, path: Path) -> None:
        """Write the policy as an ordinary model folder."""
        save_checkpoint(self.loaded, path)

    def hold_reference(self) -> None:
        """Where the algorithm has a KL term, keep the policy of the start of training beside the one that
        learns."""
        if not self.config.algorithm.kl_coef or self.learner.reference is not None:
            return
        place = self.folder / REFERENCE
        if not place.exists():
            checkpoint.write_folder(place, self.write_model)
        loaded = load_model(str(place), device=self.config.model.device, dtype=self.config.model.dtype)
        self.learner = dataclasses.replace(self.learner, reference=loaded.model.eval().requires_grad_(False))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


def open_run(config: TrainConfig, folder: Path, *, resume: bool) -> Run:
    """Begin a run, or take one up again after its last complete checkpoint.

    What a killed attempt stored after that checkpoint is forgotten, and will be made again, the same.

    Raises:
        ConfigError: the folder holds a run already, or one with another configuration.
        CheckpointError: the checkpoint cannot be read.
        ModelNotFound: no such model.
    """
    place = folder / STORE_NAME
    if place.exists() and not resume:
        raise ConfigError(
            f"{folder} holds a run already: add --resume to go on with it, or choose another --out"
        )
    begun = place.exists()
    parts = [name for name in PARTS if (folder / name).exists()]
    if parts and not begun:
        raise ConfigError(
            f"{folder} has {', '.join(parts)}, but no {STORE_NAME}: it is no folder of a run, or has lost its store. "
            "Choose another --out"
        )
    with contextlib.ExitStack() as on_error:
        if begun:
            store = on_error.enter_context(RunStore(place))
            _check_same_run(store, config)
        last = checkpoint.latest(folder / CHECKPOINTS)
        last_warm = checkpoint.latest(folder / WARM_START) if last is None else None
        loaded = _load_model(config, str(last or last_warm or config.model.path))
        if not begun:  # nothing is written for a model that cannot be loaded
            store = on_error.enter_context(RunStore(place))
        (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
        store.set_meta("config", config.model_dump(mode="json"))
        for unfinished in (folder, folder / CHECKPOINTS, folder / WARM_START):
            checkpoint.clean(unfinished)
        run = _assemble(config, folder, store, loaded, None if last is None else checkpoint.load_state(last))
        if last_warm is not None:
            run.warm_optimiser = checkpoint.load_state(last_warm)["optimiser"]
        on_error.pop_all()
    return run


def _check_same_run(store: RunStore, config: TrainConfig) -> None:
    before = store.get_meta("config")
    if before is None:
        return
    now = config.model_dump(mode="json")
    for key in sorted(set(now) - CHANGEABLE):
        if now[key] != before.get(key):
            raise ConfigError(
                f"the run in {store.path.parent} was begun with another {key} "
                f"({before.get(key)}, now {now[key]}): "
                "resume it with its own config.toml, or choose another --out"
            )


def _load_model(config: TrainConfig, source: str) -> LoadedModel:
    loaded = load_model(source, device=config.model.device, dtype=config.model.dtype, seed=config.seed)
    longest = getattr(loaded.model.config, "max_position_embeddings", None)
    if longest is not None and longest < config.rollout.max_tokens:
        raise ConfigError(
            f"rollout.max_tokens = {config.rollout.max_tokens}, but {loaded.name} reads at most {longest} "
            f"tokens: write {longest} or less"
        )
    check_model(loaded.model)
    disable_dropout(loaded.model)
    return loaded


def _assemble(
    config: TrainConfig, folder: Path, store: RunStore, loaded: LoadedModel, state: dict[str, Any] | None
) -> Run:
    learner = build_learner(config, loaded.model)
    step = 0
    if state is not None:
        step = int(state["step"])
        for optimiser, saved in zip(learner.optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(saved)
        if learner.critic is not None:
            learner.critic.load_state_dict(state["critic"])
    warm = config.sft is None or state is not None
    _forget(store, step + 1 if warm else 0)
    engine = HFEngine(
        loaded.model,
        max_context=config.rollout.max_tokens,
        slots=config.rollout.concurrency,
        policy_version=step,
    )
    renderer = choose_renderer(
        loaded.tokenizer, renderer=config.model.renderer, stop_ids=stop_ids_of(loaded.model)
    )
    return Run(config, folder, store, loaded, engine, renderer, learner, step, warm)


def _forget(store: RunStore, step: int) -> None:
    """Forget what a killed attempt stored from a step on; the warm start keeps its own books."""
    for phase in {"train", *(phase for phase, _ in store.phases())} - {"sft"}:
        store.delete_episodes(phase, step)
        store.delete_metrics(phase, step)


def build_learner(config: TrainConfig, model: Any) -> Learner:
    """The learner of a policy, with a fresh critic and fresh optimisers."""
    algorithm, optim = config.algorithm, config.optim
    critic = Critic.of(model, config.critic.trunk) if algorithm.critic else None
    updates = config.steps * algorithm.epochs * min(algorithm.minibatches, config.episodes_per_step)

    def optimiser(parameters: list[tuple[str, torch.nn.Parameter]], lr: float) -> Optimiser:
        return Optimiser(
            parameters,
            lr=lr,
            betas=optim.betas,
            weight_decay=optim.weight_decay,
            max_grad_norm=optim.max_grad_norm,
            schedule=optim.schedule,
            warmup=optim.warmup_steps,
            total=updates,
        )

    policy = list(model.named_parameters())
    values = [] if critic is None else [(f"critic.{name}", p) for name, p in critic.named_parameters()]
    optimisers = [optimiser([*policy, *values], optim.lr)]
    if critic is not None and critic.trunk is not None:
        optimisers = [optimiser(policy, optim.lr), optimiser(values, config.critic.lr or optim.lr)]
    return Learner(
        model,
        critic,
        None,
        tuple(optimisers),
        config.rollout.temperature,
        optim.micro_batch_tokens,
        optim.recompute,
    )
