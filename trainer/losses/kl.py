"""Estimates of the divergence from the reference policy, token by token, from the sampled token alone.

With d = logπ − logπ_ref of a token sampled from π, k1, k2 and k3 all estimate KL(π‖π_ref), but as *losses*
they differ: what matters there is the gradient. On-policy and in expectation, k1 in the (detached) reward has
the gradient of the whole trajectory's KL; k2, k1+ and k3+ as losses have that of the KL at the visited
states; k3 as a loss has that of the *forward* KL(π_ref‖π); k1 as a loss has none at all.

Source: Schulman 2020, "Approximating KL divergence"; Tang and Munos 2025 for the gradients.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor

from turngym.trainer.losses.policy import MAX_LOG_RATIO
from turngym.trainer.losses.select import at_actions


@jaxtyped(typechecker=beartype)
def k1(
    logprobs: Float[Tensor, "*tokens"],
    reference_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """k1 = d = logπ − logπ_ref: unbiased, may be negative, varies most. 0 where not an action."""
    return at_actions(logprobs, is_action) - at_actions(reference_logprobs, is_action).detach()


@jaxtyped(typechecker=beartype)
def k2(
    logprobs: Float[Tensor, "*tokens"],
    reference_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """k2 = ½ d²: its value is biased, its gradient is the right one. 0 where not an action."""
    return 0.5 * k1(logprobs, reference_logprobs, is_action).square()


@jaxtyped(typechecker=beartype)
def k3(
    logprobs: Float[Tensor, "*tokens"],
    reference_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """k3 = e^{−d} + d − 1: unbiased, never negative, varies less. In the exponential d is clamped to ±20."""
    d = k1(logprobs, reference_logprobs, is_action)
    return torch.expm1(-d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)) + d


@jaxtyped(typechecker=beartype)
def k1_plus(
    logprobs: Float[Tensor, "*tokens"],
    reference_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """The value of k1 with the gradient of k2 (straight through)."""
    return _straight_through(k1, logprobs, reference_logprobs, is_action)


@jaxtyped(typechecker=beartype)
def k3_plus(
    logprobs: Float[Tensor, "*tokens"],
    reference_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """The value of k3 with the gradient of k2 (straight through)."""
    return _straight_through(k3, logprobs, reference_logprobs, is_action)


KlEstimator = Callable[[Tensor, Tensor, Tensor], Tensor]

KL_ESTIMATORS: Mapping[str, KlEstimator] = MappingProxyType(
    {"k1": k1, "k2": k2, "k3": k3, "k1+": k1_plus, "k3+": k3_plus}
)
"""Estimator by name: (logprobs, reference_logprobs, is_action) to one number per token."""


def _straight_through(
    value: KlEstimator, logprobs: Tensor, reference_logprobs: Tensor, is_action: Tensor
) -> Tensor:
    carrier = k2(logprobs, reference_logprobs, is_action)
    return carrier + (value(logprobs, reference_logprobs, is_action) - carrier).detach()
