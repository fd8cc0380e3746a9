"""The warm start: imitate a reference policy by cross-entropy on its action tokens."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from turngym.agents.types import Trajectory
from turngym.trainer.batch import Batch, pack
from turngym.trainer.config import OptimConfig, SftConfig
from turngym.trainer.errors import HealthError
from turngym.trainer.finite import BROKEN, first_not_finite
from turngym.trainer.forward import hidden_states, read_policy, recomputed_trunk, trunk_of
from turngym.trainer.losses.aggregate import Normaliser, aggregate
from turngym.trainer.microbatch import microbatches
from turngym.trainer.optim import Optimiser, step_together


def sft_optimiser(model: Any, config: SftConfig, optim: OptimConfig) -> Optimiser:
    """The optimiser of a warm start: a short warm-up, then its schedule."""
    return Optimiser(
        model.named_parameters(),
        lr=config.lr,
        betas=optim.betas,
        weight_decay=optim.weight_decay,
        max_grad_norm=optim.max_grad_norm,
        schedule=config.schedule,
        warmup=config.steps // 20,
        total=config.steps,
    )


def imitate(
    model: Any,
    optimiser: Optimiser,
    trajectories: Sequence[Trajectory],
    config: SftConfig,
    optim: OptimConfig,
    *,
    seed: int,
) -> Iterator[dict[str, float]]:
    """Take the optimiser steps of a warm start, one each time the iterator is advanced.

    Args:
        model: the policy, changed in place.
        optimiser: of the policy; the steps that it has taken already are not taken again.
        trajectories: what to imitate.
        config: how many steps, of how many tokens.
        optim: the size of a micro-batch.
        seed: of the order in which episodes come; all of them come before any comes again.

    Yields:
        The figures of each step.

    Raises:
        HealthError: the loss is not finite, and that step was not applied; or it left weights that are not finite.
    """
    order = _Order(trajectories, seed)
    done = optimiser.updates
    for step in range(1, config.steps + 1):
        chosen = order.take(config.batch_tokens)
        if step <= done:
            continue
        batch = pack(chosen, range(len(chosen)))
        with recomputed_trunk(model, enabled=optim.recompute):
            figures = imitation_gradient(
                model, batch, micro_batch_tokens=optim.micro_batch_tokens, collect=optimiser.collect
            )
        figures |= {"lr": optimiser.lr, "grad_norm": step_together([optimiser])}
        if not all(map(math.isfinite, figures.values())):
            raise HealthError(f"warm start, step {step}: {figures}. Try a lower sft.lr")
        broken = first_not_finite(dict(model.named_parameters()))
        if broken is not None:
            raise HealthError(f"warm start, step {step}: {broken} {BROKEN}. Try a lower sft.lr")
        yield figures


def imitation_gradient(
    model: Any, batch: Batch, *, micro_batch_tokens: int, collect: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Add the gradient of the mean cross-entropy of the batch's action tokens, each counted once.

        L = −(1/N) Σ_t log π(a_t | what came before)

    Args:
        model: the policy.
        batch: the episodes to imitate.
        micro_batch_tokens: positions of a micro-batch, padding included.
        collect: called after the backward pass of each micro-batch.

    Returns:
        The loss, and the entropy of the policy at these tokens; both in nats per token.
    """
    normaliser = Normaliser.of("token-mean", batch.is_action, batch.episode[:, None], batch.group)
    totals = {"loss": 0.0, "entropy": 0.0}
    for part in microbatches(batch, torch.arange(batch.episodes), max_tokens=micro_batch_tokens):
        rows = part.tokens(batch, model.device)
        hidden = hidden_states(trunk_of(model), rows)
        reading = read_policy(model.get_output_embeddings(), hidden, rows, temperature=1.0)
        episode = batch.episode[part.rows, None].to(model.device)
        weights = Normaliser(normaliser.token_weight.to(model.device))
        loss = aggregate(-reading.logprobs, rows.is_action, episode, weights)
        loss.backward()
        collect()
        totals["loss"] += float(loss.detach())
        totals["entropy"] += float(aggregate(reading.entropy.detach(), rows.is_action, episode, weights))
    return totals


class _Order:
    """Gives episodes in an order that is shuffled anew for each pass."""

    def __init__(self, trajectories: Sequence[Trajectory], seed: int) -> None:
        self._trajectories = trajectories
        self._generator = torch.Generator().manual_seed(seed)
        self._waiting: list[int] = []

    def take(self, tokens: int) -> list[Trajectory]:
        """The next episodes, until they have that many tokens or there are as many as there are episodes in all."""
        taken: list[Trajectory] = []
        size = 0
        while size < tokens and len(taken) < len(self._trajectories):
            if not self._waiting:
                self._waiting = torch.randperm(len(self._trajectories), generator=self._generator).tolist()
            taken.append(self._trajectories[self._waiting.pop()])
            size += sum(len(segment.ids) for segment in taken[-1].segments())
        return taken
