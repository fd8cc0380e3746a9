"""How a token is drawn from logits, given a uniform number: the inverse of the cumulative distribution.

Axis letters: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turngym.agents.errors import SamplingError
from turngym.agents.protocols import Sampling


@dataclass(frozen=True, slots=True)
class SamplingRows:
    """The sampling options of each row of a batch, as columns."""

    temperature: tuple[float, ...]
    """Divides the logits; 0 is greedy."""
    top_k: tuple[int, ...]
    """0 means all."""
    top_p: tuple[float, ...]
    """1 means all."""

    @classmethod
    def of(cls, rows: Sequence[Sampling]) -> SamplingRows:
        """The columns of a list of options."""
        return cls(
            tuple(row.temperature for row in rows),
            tuple(row.top_k for row in rows),
            tuple(row.top_p for row in rows),
        )


def check_sampling(sampling: Sampling) -> None:
    """Refuse options that make no sense.

    Raises:
        SamplingError: the message names the option and its range.
    """
    if not 0.0 <= sampling.temperature < float("inf"):
        raise SamplingError(
            f"temperature must be 0 (greedy) or positive and finite, got {sampling.temperature}"
        )
    if not 0.0 < sampling.top_p <= 1.0:
        raise SamplingError(f"top_p must be in (0, 1], got {sampling.top_p}")
    if sampling.top_k < 0:
        raise SamplingError(f"top_k must be 0 (all) or positive, got {sampling.top_k}")
    if sampling.max_tokens < 0:
        raise SamplingError(f"max_tokens must be at least 0, got {sampling.max_tokens}")


def draw(logits: Tensor, rows: SamplingRows, uniforms: NDArray[np.float64]) -> tuple[list[int], list[float]]:
    """One token per row, and its logprob under the distribution that it was drawn from.

    Logits are divided by the temperature; then top-k and top-p cut the support, and what is left is
    renormalised. Greedy rows take the most likely token of the untempered logits; they are drawn from a point
    mass, so their logprob is 0.

    Args:
        logits: of any floating type, [R, V]; computed with in float32.
        rows: the options of each row.
        uniforms: one number in [0, 1) per row.

    Returns:
        Token ids and logprobs in nats. A row whose logits are not finite has the logprob NaN.
    """
    logits = logits.float()
    if not {0.0, 1.0}.issuperset(rows.temperature):
        temperature = torch.tensor([t or 1.0 for t in rows.temperature], device=logits.device)
        logits = logits / temperature[:, None]
    logprobs = torch.log_softmax(logits, dim=-1)
    if any(rows.top_k) or min(rows.top_p) < 1.0:
        logprobs = _restrict(logprobs, rows)
    ids = _inverse_cdf(logprobs.exp(), torch.from_numpy(uniforms).to(logits.device))
    chosen = logprobs.gather(-1, ids[:, None])[:, 0]
    if 0.0 in rows.temperature:
        is_greedy = torch.tensor([t == 0.0 for t in rows.temperature], device=logits.device)
        best = logprobs.max(dim=-1)
        ids = torch.where(is_greedy, best.indices, ids)
        # A point mass has the logprob 0; subtracting keeps NaN where the logits were not finite.
        chosen = torch.where(is_greedy, best.values - best.values, chosen)
    return ids.tolist(), chosen.tolist()


def _inverse_cdf(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """The first token at which the cumulative distribution exceeds the uniform number.

        i = min { j : Σ_{k≤j} p_k > u }

    Rounding may leave the sum of all below u; staying strictly below that sum keeps it from choosing a token
    beyond the end, or one of probability 0.
    """
    cumulative = probabilities.cumsum(dim=-1)
    total = cumulative[:, -1]
    threshold = torch.minimum(uniforms.to(total.dtype), torch.nextafter(total, torch.zeros_like(total)))
    ids = torch.searchsorted(cumulative, threshold[:, None], right=True)[:, 0]
    return ids.clamp_(max=probabilities.shape[-1] - 1)


def _restrict(logprobs: Tensor, rows: SamplingRows) -> Tensor:
    """Cut each row's support to its top-k tokens, then to the smallest set of mass top-p, and renormalise."""
    vocabulary = logprobs.shape[-1]
    device = logprobs.device
    top_k = torch.tensor([k or vocabulary for k in rows.top_k], device=device)
    top_p = torch.tensor(rows.top_p, device=device)
    ordered, order = logprobs.sort(dim=-1, descending=True, stable=True)
    is_kept = torch.arange(vocabulary, device=device) < top_k[:, None]
    ordered = torch.log_softmax(ordered.masked_fill(~is_kept, -torch.inf), dim=-1)
    mass_before = ordered.exp().cumsum(dim=-1) - ordered.exp()
    # The token that crosses top_p is kept, so at least one always is; top_p = 1 must not lose tokens to
    # rounding.
    is_kept &= (mass_before < top_p[:, None]) | (top_p[:, None] >= 1.0)
    is_kept = torch.zeros_like(is_kept).scatter_(-1, order, is_kept)
    return torch.log_softmax(logprobs.masked_fill(~is_kept, -torch.inf), dim=-1)
