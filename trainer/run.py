"""Everything that a run holds while it goes on, and how it is saved.

OUT/run.sqlite      episodes and figures           OUT/checkpoints/step-…   to resume from
OUT/config.toml     the resolved configuration     OUT/final/               the trained model
"""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from turngym.agents.engines.hf import HFEngine
from turngym.agents.models import LoadedModel, load_model, save_checkpoint
from turngym.agents.protocols import Renderer
from turngym.evaluation.store import RunStore
from turngym.trainer import checkpoint
from turngym.trainer.config import TrainConfig
from turngym.trainer.critic import Critic
from turngym.trainer.errors import HealthError
from turngym.trainer.finite import BROKEN, first_not_finite
from turngym.trainer.optim import Optimiser
from turngym.trainer.sft import sft_optimiser
from turngym.trainer.update import Learner

CHECKPOINTS = "checkpoints"
"""Folder of the checkpoints."""

REFERENCE = "reference"
"""Folder of the policy that a KL term holds on to."""

WARM_START = "warm-start"
"""Folder of an unfinished warm start."""

SAVED = "saved"
"""Where the store keeps the step of the last checkpoint."""


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

    def save(self, *, spare: int = 0) -> Path:
        """Write the checkpoint of the steps completed.

        Args:
            spare: how many older ones to keep beyond those that the configuration asks for.

        Raises:
            CheckpointError: it cannot be written.
            HealthError: what would be written is not finite. The checkpoints there are stay as they are.
        """
        critic = self.learner.critic
        state: dict[str, Any] = {
            "step": self.step,
            "warm": self.warm,
            "optimisers": [optimiser.state_dict() for optimiser in self.learner.optimisers],
            "critic": None if critic is None else critic.state_dict(),
        }
        self._check_finite(state)
        keep = self.config.checkpoint.keep + spare
        place = checkpoint.save(self.checkpoints, self.step, state, self.write_model, keep=keep)
        self.store.set_meta(SAVED, self.step)
        return place

    def _check_finite(self, state: dict[str, Any]) -> None:
        broken = first_not_finite(self.learner.weights | state)
        if broken is not None:
            last = checkpoint.latest(self.checkpoints)
            sound = "there is no checkpoint" if last is None else f"the last sound checkpoint is {last}"
            raise HealthError(f"step {self.step} is not saved: {broken} {BROKEN}; {sound}")

    @property
    def steps_done(self) -> dict[str, int]:
        """Steps completed, by phase."""
        warm = 0 if self.warm_optimiser is None else int(self.warm_optimiser["updates"])
        return {"train": self.step, "eval": self.step} | ({} if self.warm else {"sft": warm})

    def save_warm_start(self, optimiser: Optimiser) -> None:
        """Write where the warm start is.

        Raises:
            CheckpointError: it cannot be written.
            HealthError: what would be written is not finite.
        """
        state = {"optimiser": optimiser.state_dict()}
        self._check_finite(state)
        checkpoint.save(self.folder / WARM_START, optimiser.updates, state, self.write_model, keep=1)

    def resume_warm_start(self, place: Path, state: dict[str, Any]) -> None:
        """Note where an interrupted warm start goes on from, once it is sure that it can.

        Raises:
            CheckpointError: the state is damaged.
        """
        sft = self.config.sft
        assert sft is not None
        with checkpoint.usable(place):
            sft_optimiser(self.loaded.model, sft, self.config.optim).load_state_dict(state["optimiser"])
        self.warm_optimiser = state["optimiser"]

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
