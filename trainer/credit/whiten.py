"""Whitening: mean 0 and standard deviation 1 over the batch, counting tokens or episodes, never rows."""

import warnings

import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor


class TooFewToWhitenWarning(UserWarning):
    """Fewer than two numbers have no spread: they are whitened to 0 and teach nothing."""


@jaxtyped(typechecker=beartype)
def whiten(
    x: Float[Tensor, "*tokens"], is_action: Bool[Tensor, "*tokens"], *, ddof: int = 1
) -> Float[Tensor, "*tokens"]:
    """Whiten over the action tokens of the global batch, each counted once.

        y = (x − mean x) / √(var x + 1e-8)

    Args:
        x: one number per token; nothing is read where `is_action` is False.
        is_action: True on the tokens that count.
        ddof: 1 for the sample variance, 0 for the population's.

    Returns:
        y; 0 where not an action. All exactly 0 if the x are all equal or fewer than two.
    """
    spread, centred, variance = _moments(x, is_action, ddof)
    return torch.where(is_action & spread, centred * torch.rsqrt(variance + 1e-8), 0)


@jaxtyped(typechecker=beartype)
def normalise(
    x: Float[Tensor, " E"], exists: Bool[Tensor, " E"], *, ddof: int = 1, eps: float = 1e-4
) -> Float[Tensor, " E"]:
    """Whiten over the episodes of the global batch, each counted once whatever its length.

        y_i = (x_i − mean x) / (std x + ε)

    Args:
        x: one number per episode; nothing is read where `exists` is False.
        exists: True on the episodes that count.
        ddof: 1 for the sample standard deviation, 0 for the population's.
        eps: added to the standard deviation.

    Returns:
        y; 0 where `exists` is False. All exactly 0 if the x are all equal or fewer than two.
    """
    spread, centred, variance = _moments(x, exists, ddof)
    return torch.where(exists & spread, centred / (variance.sqrt() + eps), 0)


def _moments(x: Tensor, counts: Tensor, ddof: int) -> tuple[Tensor, Tensor, Tensor]:
    """Whether the counted x differ at all, x minus their mean, and their variance."""
    counted = x[counts]
    if counted.numel() < 2:
        warnings.warn(
            f"{counted.numel()} numbers cannot be whitened (it takes two): 0. Use a larger batch.",
            TooFewToWhitenWarning,
            stacklevel=4,
        )
        return torch.zeros_like(counts.any()), torch.zeros_like(x), x.new_zeros(())
    mean = counted.mean()
    return counted.max() > counted.min(), x - mean, counted.var(correction=ddof)
