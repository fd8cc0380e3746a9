"""The critic's loss: squared error against the returns, optionally kept near the old prediction."""

import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor

from turngym.trainer.losses.select import at_actions


@jaxtyped(typechecker=beartype)
def value_loss(
    values: Float[Tensor, "*tokens"],
    old_values: Float[Tensor, "*tokens"],
    returns: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
    *,
    clip: float | None = None,
) -> Float[Tensor, "*tokens"]:
    """Squared error of the critic at each action token; the larger of the plain and the clipped one.

        L_t = ½ (V_t − R_t)²
        with clip c:  L_t = ½ max((V_t − R_t)², (V_old,t + clip(V_t − V_old,t, −c, c) − R_t)²)

    Args:
        values: V_t; the variable.
        old_values: V_old,t, predicted when the advantages were computed; constants, not read without a clip.
        returns: R_t; constants.
        is_action: True on action tokens; nothing is read elsewhere.
        clip: c, in units of value, or None for the plain loss.

    Returns:
        L_t; 0 where not an action.

    Source: Schulman et al. 2016 (plain); the clip comes with the PPO of OpenAI Baselines.
    """
    plain, clipped = _squared_errors(values, old_values, returns, is_action, clip)
    return 0.5 * torch.maximum(plain, clipped)


@jaxtyped(typechecker=beartype)
def is_value_clipped(
    values: Float[Tensor, "*tokens"],
    old_values: Float[Tensor, "*tokens"],
    returns: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
    *,
    clip: float,
) -> Bool[Tensor, "*tokens"]:
    """True on the action tokens where the clipped error is the larger: the critic gets no gradient."""
    plain, clipped = _squared_errors(values, old_values, returns, is_action, clip)
    return clipped > plain


def _squared_errors(
    values: Tensor, old_values: Tensor, returns: Tensor, is_action: Tensor, clip: float | None
) -> tuple[Tensor, Tensor]:
    values, returns = at_actions(values, is_action), at_actions(returns, is_action).detach()
    plain = (values - returns).square()
    if clip is None:
        return plain, plain
    old = at_actions(old_values, is_action).detach()
    step = values - old
    # Within the clip V itself is kept: old + (V − old) differs by rounding, and would count as clipped.
    kept = torch.where(step.abs() <= clip, values, old + step.clamp(-clip, clip))
    return plain, (kept - returns).square()
