"""The figures of a training step: means over action tokens, added up over micro-batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from turngym.trainer.losses.policy import log_ratio


@dataclass(slots=True)
class Tally:
    """Sums over the micro-batches and optimiser steps of an update."""

    _sums: dict[str, float] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _losses: dict[str, float] = field(default_factory=dict)
    _largest: dict[str, float] = field(default_factory=dict)
    _steps: int = 0

    def losses(self, parts: Mapping[str, Tensor]) -> None:
        """Add a micro-batch's contributions to the losses of its optimiser step."""
        for name, part in parts.items():
            self._losses[name] = self._losses.get(name, 0.0) + float(part.detach())

    def mean(
        self, name: str, per_token: Float[Tensor, "*tokens"], is_action: Bool[Tensor, "*tokens"]
    ) -> None:
        """Add the action tokens of a micro-batch to a mean."""
        self._sums[name] = self._sums.get(name, 0.0) + float(per_token.detach()[is_action].double().sum())
        self._counts[name] = self._counts.get(name, 0) + int(is_action.sum())

    def largest(
        self, name: str, per_token: Float[Tensor, "*tokens"], is_action: Bool[Tensor, "*tokens"]
    ) -> None:
        """Keep the largest entry at action tokens."""
        if is_action.any():
            self._largest[name] = max(
                self._largest.get(name, 0.0), float(per_token.detach()[is_action].max())
            )

    def optimiser_step(self, grad_norm: float) -> None:
        """Note an optimiser step and the norm of its gradient."""
        self._steps += 1
        self._losses["grad_norm"] = self._losses.get("grad_norm", 0.0) + grad_norm

    def figures(self) -> dict[str, float]:
        """Means per action token, and losses and norms per optimiser step."""
        means = {name: total / max(1, self._counts[name]) for name, total in self._sums.items()}
        return (
            means
            | {name: total / max(1, self._steps) for name, total in self._losses.items()}
            | self._largest
        )


def tally_ratio(
    tally: Tally,
    logprobs: Float[Tensor, "*tokens"],
    proximal_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> None:
    """Add the figures of ρ = π/π_o of a micro-batch: its mean, its largest value, and KL(π_o‖π)."""
    log = log_ratio(logprobs.detach(), proximal_logprobs.detach(), is_action)
    tally.mean("ratio_mean", log.exp(), is_action)
    tally.largest("ratio_max", log.exp(), is_action)
    # The tokens were drawn from π_o, so mean(ρ − 1 − log ρ) estimates KL(π_o‖π) and is never negative.
    tally.mean("approx_kl", torch.expm1(log) - log, is_action)


def tally_gap(
    tally: Tally,
    logprobs: Float[Tensor, "*tokens"],
    behaviour_logprobs: Float[Tensor, "*tokens"],
    is_fresh: Bool[Tensor, "*tokens"],
) -> None:
    """Add |Δlogprob| between engine and trainer, in nats, of the tokens that the present weights sampled."""
    gap = (logprobs.detach() - behaviour_logprobs).abs()
    tally.mean("logprob_gap_mean", gap, is_fresh)
    tally.largest("logprob_gap_max", gap, is_fresh)


def explained_variance(
    values: Float[Tensor, "*tokens"], returns: Float[Tensor, "*tokens"], is_action: Bool[Tensor, "*tokens"]
) -> float:
    """Share of the variance of the returns that the critic predicted: 1 − Var(R − V)/Var(R); 0 if R does not
    vary."""
    r, v = returns[is_action].double(), values[is_action].double()
    variance = float(r.var()) if len(r) > 1 else 0.0
    return 1.0 - float((r - v).var()) / variance if variance > 0 else 0.0
