"""The health guard: stops a run whose figures say that it no longer learns what it should."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from turngym.trainer.errors import HealthError


class HealthBounds(BaseModel):
    """What still counts as healthy."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)

    min_entropy: float = Field(default=1e-3, ge=0)
    """Nats per action token; below it the policy no longer explores, and groups have nothing to compare. 0 =
    off."""
    max_logprob_gap: float = Field(default=0.1, gt=0)
    """Nats; bound of the mean |Δlogprob| of the same tokens between engine and trainer, of tokens sampled by
    the present weights."""
    max_failed_share: float = Field(default=0.5, ge=0, le=1)
    """Bound of the share of a step's episodes that failed through no fault of the agent's."""


def check_health(
    bounds: HealthBounds, step: int, metrics: Mapping[str, float], *, error: str | None = None
) -> None:
    """Compare the figures of a step with the bounds. A figure that is absent is not checked.

    Args:
        bounds: what is healthy.
        step: number of the training step.
        metrics: its figures.
        error: of an episode that failed, to be quoted.

    Raises:
        HealthError: naming the step, the figures, and what usually helps.
    """
    for name, value in metrics.items():
        if not math.isfinite(value) and name in _MUST_BE_FINITE:
            raise HealthError(
                f"step {step}: {name} is {value}. "
                "Try a lower optim.lr or optim.max_grad_norm, or model.dtype = 'float32'"
            )
    entropy = metrics.get("entropy", math.inf)
    if entropy < bounds.min_entropy:
        raise HealthError(
            f"step {step}: entropy {entropy:.2g} nats is below health.min_entropy = {bounds.min_entropy:g}: "
            "the policy has collapsed. Try a lower optim.lr or algorithm.entropy_coef > 0; "
            "or lower the bound if the task is solved"
        )
    gap = metrics.get("logprob_gap_mean", 0.0)
    if gap > bounds.max_logprob_gap:
        raise HealthError(
            f"step {step}: engine and trainer disagree by {gap:.3g} nats per token on average (largest "
            f"{metrics.get('logprob_gap_max', math.nan):.3g}), above health.max_logprob_gap = "
            f"{bounds.max_logprob_gap:g}. Their weights, their temperature or their precision differ"
        )
    failed = metrics.get("failed_share", 0.0)
    if failed > bounds.max_failed_share:
        raise HealthError(
            f"step {step}: {failed:.0%} of the episodes failed, more than health.max_failed_share = "
            f"{bounds.max_failed_share:.0%}. The first of them: {error or 'unknown'}"
        )


_MUST_BE_FINITE = frozenset({"policy_loss", "value_loss", "entropy", "grad_norm", "logprob_gap_mean", "loss"})
