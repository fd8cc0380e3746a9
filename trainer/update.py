"""One training step on a batch: read what the present weights say, then take the optimiser steps of the
algorithm.

read_batch   (no gradient)   logπ_o and V of every action token, before anything changes
update       for each epoch, for each mini-batch of whole episodes:
                 for each micro-batch: forward, losses, backward      (the normaliser is the mini-batch's)
                 one optimiser step
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from turngym.trainer.algorithms import POLICY_LOSSES, Algorithm, PolicyInputs
from turngym.trainer.batch import Batch, Targets
from turngym.trainer.critic import Critic, ValueReading
from turngym.trainer.forward import PolicyReading, hidden_states, read_policy, recomputed_trunk, trunk_of
from turngym.trainer.losses.aggregate import Normaliser, aggregate
from turngym.trainer.losses.kl import KL_ESTIMATORS
from turngym.trainer.losses.policy import is_clipped
from turngym.trainer.losses.value import value_loss
from turngym.trainer.metrics import Tally, tally_gap, tally_ratio
from turngym.trainer.microbatch import MicroBatch, final_positions, microbatches, minibatches
from turngym.trainer.optim import Optimiser, step_together


@dataclass(frozen=True, slots=True)
class Learner:
    """What learns, and how its batches are read."""

    model: Any
    """The policy, a causal language model of transformers."""
    critic: Critic | None
    """Predicts returns, for algorithms that need it."""
    reference: Any | None
    """The frozen policy that a KL term holds on to; None where there is no such term."""
    optimisers: tuple[Optimiser, ...]
    """One for the policy (with a critic on the same trunk), and one for a critic that has its own."""
    temperature: float
    """At which the engine samples; it divides the logits here too."""
    micro_batch_tokens: int
    """Positions of a micro-batch, padding included."""
    recompute: bool = False
    """Keep only the inputs of the trunk's layers, and compute the rest again in the backward pass."""

    @property
    def weights(self) -> dict[str, dict[str, Tensor]]:
        """All that learns, by name."""
        parts = {"policy": self.model} | ({} if self.critic is None else {"critic": self.critic})
        return {name: dict(part.named_parameters()) for name, part in parts.items()}


@dataclass(frozen=True, slots=True)
class BatchReading:
    """What the weights at the start of a step say about its batch. All constants; 0 where not an action."""

    logprobs: Float[Tensor, "B T"]
    """logπ_o of each action token, nats."""
    values: Float[Tensor, "B T"]
    """V before each action token; 0 without a critic."""
    final_values: Float[Tensor, "E"]
    """V(final) of truncated episodes; 0 for the others."""
    reference_logprobs: Float[Tensor, "B T"] | None
    """logπ_ref of each action token, nats; None without a reference."""


def needs_reading(learner: Learner, algorithm: Algorithm) -> bool:
    """False where nothing would be used of a `BatchReading`.

    With a single optimiser step the policy at its start is the present one, so that π_o := sg(logπ) and the
    ratio is exactly 1; no pass before it is needed.
    """
    return (
        learner.critic is not None
        or learner.reference is not None
        or algorithm.epochs * algorithm.minibatches > 1
    )


@torch.no_grad()
def read_batch(learner: Learner, batch: Batch) -> BatchReading:
    """Read a batch with the present weights, without a gradient."""
    logprobs, values = torch.zeros_like(batch.rewards), torch.zeros_like(batch.rewards)
    reference = None if learner.reference is None else torch.zeros_like(batch.rewards)
    final_of_row = batch.rewards.new_zeros(len(batch.episode))
    for part in microbatches(batch, torch.arange(batch.episodes), max_tokens=learner.micro_batch_tokens):
        policy, value = _forward(learner, batch, part)
        part.put(logprobs, policy.logprobs)
        if value is not None:
            part.put(values, value.values)
            final_of_row[part.rows] = value.final.to(final_of_row)
        if reference is not None:
            part.put(reference, _logprobs_of(learner.reference, learner.temperature, batch, part))
    reads = batch.truncated & (batch.bootstrap_row >= 0)
    return BatchReading(logprobs, values, torch.where(reads, final_of_row[batch.bootstrap_row], 0), reference)


def update(
    learner: Learner,
    algorithm: Algorithm,
    batch: Batch,
    targets: Targets,
    reading: BatchReading | None,
    *,
    policy_version: int,
    generator: torch.Generator,
    train_policy: bool = True,
) -> dict[str, float]:
    """Take the optimiser steps of one training step.

    Args:
        learner: what learns.
        algorithm: the row of the table.
        batch: the facts of the step.
        targets: advantages and returns, computed once.
        reading: from `read_batch` before this update; None where `needs_reading` is False.
        policy_version: of the present weights; engine and trainer are compared on the tokens that they
            sampled.
        generator: shuffles the episodes into mini-batches.
        train_policy: False to train the critic alone (its warm-up).

    Returns:
        Means over the action tokens of all optimiser steps, the losses and the norm of the gradient. If a
        norm is not finite, that step was not applied and the rest were not taken.
    """
    step = _Step(learner, algorithm, batch, targets, reading, policy_version, train_policy, Tally())
    # The critic's optimiser is the last one, and the only one where it shares the policy's trunk.
    own_trunk = () if learner.critic is None or learner.critic.trunk is None else (learner.critic.trunk,)
    with recomputed_trunk(learner.model, *own_trunk, enabled=learner.recompute):
        for epoch in range(algorithm.epochs):
            for number, episodes in enumerate(minibatches(batch.episodes, algorithm.minibatches, generator)):
                step.accumulate(episodes, compare_engine=epoch == number == 0)
                norm = step_together(learner.optimisers if train_policy else learner.optimisers[-1:])
                step.tally.optimiser_step(norm)
                if not math.isfinite(norm):
                    return step.tally.figures()
    return step.tally.figures()


@dataclass(frozen=True, slots=True)
class _Step:
    """The constants of an update, and the tally of its figures."""

    learner: Learner
    algorithm: Algorithm
    batch: Batch
    targets: Targets
    reading: BatchReading | None
    policy_version: int
    train_policy: bool
    tally: Tally

    def accumulate(self, episodes: Int[Tensor, "e"], *, compare_engine: bool) -> None:
        """Add up the gradient of one mini-batch."""
        batch, algorithm = self.batch, self.algorithm
        counted = batch.is_action & torch.isin(batch.episode, episodes)[:, None]
        normaliser = Normaliser.of(
            algorithm.aggregation,
            counted,
            batch.episode[:, None],
            batch.group,
            norm_tokens=algorithm.norm_tokens,
        )
        learns = self._has_gradient()[episodes]
        for chosen, with_gradient in ((episodes[learns], True), (episodes[~learns], False)):
            for part in microbatches(batch, chosen, max_tokens=self.learner.micro_batch_tokens):
                with torch.set_grad_enabled(with_gradient):
                    losses = self._losses(part, compare_engine=compare_engine)
                    self._backward(part, losses, normaliser, with_gradient=with_gradient)

    def _has_gradient(self) -> Bool[Tensor, "E"]:
        """False for episodes on which no term of the loss depends, such as a whole group of equal rewards.

        They are read for their figures alone, at a third of the cost; they count in the normaliser all the
        same.
        """
        algorithm = self.algorithm
        kl_loss = algorithm.kl_coef > 0 and algorithm.kl_in == "loss"
        if self.learner.critic is not None or algorithm.entropy_coef or kl_loss:
            return torch.ones(self.batch.episodes, dtype=torch.bool)
        size = torch.where(self.batch.is_action, self.targets.advantages, 0).abs().sum(dim=1)
        return size.new_zeros(self.batch.episodes).index_add(0, self.batch.episode, size) != 0

    def _losses(self, part: MicroBatch, *, compare_engine: bool) -> dict[str, Tensor]:
        """The terms of the loss, one number per token each."""
        batch = self.batch
        policy, value = _forward(
            self.learner,
            batch,
            part,
            entropy_gradient=self.algorithm.entropy_coef > 0,
            train_trunk=self.train_policy,
        )
        if compare_engine:
            # Only before the first optimiser step do the weights still say what they said to the engine.
            fresh = part.of(batch.policy_version == self.policy_version)
            tally_gap(self.tally, policy.logprobs.cpu(), part.of(batch.behaviour_logprobs), fresh)
        losses = self._policy_losses(part, policy) if self.train_policy else {}
        if value is not None:
            losses["value_loss"] = self._value_loss(part, value)
        return losses

    def _policy_losses(self, part: MicroBatch, policy: PolicyReading) -> dict[str, Tensor]:
        """The terms of the policy's loss, one number per token each."""
        algorithm, logprobs = self.algorithm, policy.logprobs
        is_action = self._here(part, self.batch.is_action, logprobs)
        single = algorithm.epochs * algorithm.minibatches == 1
        proximal = logprobs.detach() if single else self._here(part, self._read.logprobs, logprobs)
        advantages = self._here(part, self.targets.advantages, logprobs)
        losses = {
            "policy_loss": POLICY_LOSSES[algorithm.policy_loss](
                algorithm, PolicyInputs(logprobs, proximal, advantages, is_action)
            ),
            "entropy_bonus": policy.entropy,
        }
        if algorithm.kl_coef:
            if self._read.reference_logprobs is None:
                raise ValueError(f"{algorithm.name} has a KL term, and the learner no reference policy")
            reference = self._here(part, self._read.reference_logprobs, logprobs)
            self.tally.mean(
                "kl_reference", KL_ESTIMATORS["k3"](logprobs.detach(), reference, is_action), is_action
            )
            if algorithm.kl_in == "loss":
                losses["kl_loss"] = KL_ESTIMATORS[algorithm.kl_kind](logprobs, reference, is_action)
        clips = {"clip_low": algorithm.clip_low, "clip_high": algorithm.clip_high}
        clipped = is_clipped(logprobs.detach(), proximal, advantages, is_action, **clips)
        self.tally.mean("clip_fraction", clipped.float(), is_action)
        self.tally.mean("entropy", policy.entropy, is_action)
        tally_ratio(self.tally, logprobs, proximal, is_action)
        return losses

    def _value_loss(self, part: MicroBatch, value: ValueReading) -> Tensor:
        """The critic's loss, one number per token."""
        old = self._here(part, self._read.values, value.values)
        returns = self._here(part, self.targets.returns, value.values)
        is_action = self._here(part, self.batch.is_action, value.values)
        return value_loss(value.values, old, returns, is_action, clip=self.algorithm.value_clip)

    def _backward(
        self, part: MicroBatch, per_token: dict[str, Tensor], normaliser: Normaliser, *, with_gradient: bool
    ) -> None:
        """Weigh the tokens as the whole mini-batch does, weigh the terms, and add to the gradient."""
        weights = self._weights()
        losses: dict[str, Tensor] = {}
        for name, values in per_token.items():
            is_action = self._here(part, self.batch.is_action, values)
            episode = self.batch.episode[part.rows, None].to(values.device)
            local = Normaliser(normaliser.token_weight.to(values.device))
            losses[name] = aggregate(values, is_action, episode, local)
        self.tally.losses(losses)
        terms = [weights[name] * loss for name, loss in losses.items() if weights[name]]
        if with_gradient and terms:
            torch.stack(terms).sum().backward()
            for optimiser in self.learner.optimisers:
                optimiser.collect()

    def _weights(self) -> dict[str, float]:
        critic = self.learner.critic
        return {
            "policy_loss": 1.0,
            "entropy_bonus": -self.algorithm.entropy_coef,
            "kl_loss": self.algorithm.kl_coef,
            # A critic with a trunk of its own shares no weight with the policy: there is nothing to balance.
            "value_loss": 1.0 if critic is None or critic.trunk is not None else self.algorithm.value_coef,
        }

    @property
    def _read(self) -> BatchReading:
        if self.reading is None:
            raise ValueError(f"{self.algorithm.name} needs `read_batch` before its update")
        return self.reading

    def _here(self, part: MicroBatch, table: Tensor, like: Tensor) -> Tensor:
        """A part of a table, on the device of another tensor (and in its type, where both are numbers)."""
        moved = part.of(table).to(like.device)
        return moved if moved.dtype == torch.bool else moved.to(like.dtype)


def _forward(
    learner: Learner,
    batch: Batch,
    part: MicroBatch,
    *,
    entropy_gradient: bool = False,
    train_trunk: bool = True,
) -> tuple[PolicyReading, ValueReading | None]:
    """Read policy and critic; without `train_trunk`, the critic's loss does not reach the policy's trunk."""
    model = learner.model
    rows = part.tokens(batch, model.device)
    hidden = hidden_states(trunk_of(model), rows)
    policy = read_policy(
        model.get_output_embeddings(),
        hidden,
        rows,
        temperature=learner.temperature,
        entropy_gradient=entropy_gradient,
    )
    if learner.critic is None:
        return policy, None
    finals = final_positions(batch)[part.rows].to(model.device)
    return policy, learner.critic.read(hidden if train_trunk else hidden.detach(), rows, finals)


def _logprobs_of(model: Any, temperature: float, batch: Batch, part: MicroBatch) -> Tensor:
    rows = part.tokens(batch, model.device)
    hidden = hidden_states(trunk_of(model), rows)
    return read_policy(model.get_output_embeddings(), hidden, rows, temperature=temperature).logprobs
