"""What a training step learns from its episodes: facts, readings, targets, update."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from time import perf_counter

import torch

from turngym.agents.types import Trajectory
from turngym.trainer.algorithms import Algorithm
from turngym.trainer.batch import pack
from turngym.trainer.credit.estimate import estimate_targets
from turngym.trainer.errors import HealthError
from turngym.trainer.finite import BROKEN, first_not_finite
from turngym.trainer.metrics import explained_variance
from turngym.trainer.update import Learner, needs_reading, read_batch, update


def learn(
    learner: Learner,
    algorithm: Algorithm,
    trajectories: Sequence[Trajectory],
    groups: Sequence[int],
    *,
    seed: int,
    step: int,
    train_policy: bool = True,
) -> dict[str, float]:
    """Learn from the episodes of a step. The weights change in place.

    Args:
        learner: what learns.
        algorithm: the row of the table.
        trajectories: the episodes.
        groups: the group of each.
        seed: of the run.
        step: number of the training step, from 1; the present weights are version `step − 1`.
        train_policy: False to train the critic alone.

    Returns:
        The figures of the step.

    Raises:
        HealthError: the update left weights that are not finite numbers. They must not be kept.
    """
    started = perf_counter()
    batch = pack(trajectories, groups)
    reading = read_batch(learner, batch) if needs_reading(learner, algorithm) else None
    targets = estimate_targets(
        algorithm,
        batch,
        values=None if reading is None else reading.values,
        final_values=None if reading is None else reading.final_values,
        reference_logprobs=None if reading is None else reading.reference_logprobs,
    )
    figures = {"lr": learner.optimisers[0].lr}
    if learner.critic is not None and reading is not None:
        figures["explained_variance"] = explained_variance(reading.values, targets.returns, batch.is_action)
        figures["value_mean"] = float(reading.values[batch.is_action].mean())
    figures |= update(
        learner,
        algorithm,
        batch,
        targets,
        reading,
        policy_version=step - 1,
        generator=shuffler(seed, step),
        train_policy=train_policy,
    )
    broken = first_not_finite(learner.weights)
    if broken is not None:
        raise HealthError(
            f"step {step}: after the update, {broken} {BROKEN}. "
            "Try a lower optim.lr or optim.max_grad_norm, or model.dtype = 'float32'"
        )
    return figures | {
        "advantage_size": float(targets.advantages[batch.is_action].abs().mean()),
        "segments_per_episode": len(batch.episode) / batch.episodes,
        "batch_tokens": float(batch.is_real.sum()),
        "update_s": perf_counter() - started,
    }


def shuffler(seed: int, step: int) -> torch.Generator:
    """The generator that deals a step's episodes into mini-batches: a function of seed and step, so that a
    resumed run needs no generator's state."""
    digest = hashlib.sha256(f"minibatches/{seed}/{step}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
