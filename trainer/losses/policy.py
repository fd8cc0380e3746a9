"""Policy losses: one number per action token, to be minimised, whose gradient makes good tokens likelier."""

import torch
from beartype import beartype
from jaxtyping import Bool, Float, jaxtyped
from torch import Tensor

from turngym.trainer.losses.select import at_actions

MAX_LOG_RATIO = 20.0
"""Log-ratios are clamped to ± this many nats before they are exponentiated."""


@jaxtyped(typechecker=beartype)
def reinforce(
    logprobs: Float[Tensor, "*tokens"],
    advantages: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """Policy gradient on fresh samples.

        L_t = −A_t · logπ_t

    Args:
        logprobs: logπ_t, nats; the variable.
        advantages: A_t; constants.
        is_action: True on action tokens; nothing is read elsewhere.

    Returns:
        L_t; 0 where not an action.

    Source: Williams 1992.
    """
    return -at_actions(advantages, is_action).detach() * at_actions(logprobs, is_action)


@jaxtyped(typechecker=beartype)
def ppo_clip(
    logprobs: Float[Tensor, "*tokens"],
    proximal_logprobs: Float[Tensor, "*tokens"],
    advantages: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> Float[Tensor, "*tokens"]:
    """PPO's pessimistic surrogate: no reward for moving the ratio beyond the clip.

        ρ_t = π_t / π_o,t
        L_t = max(−A_t ρ_t, −A_t clip(ρ_t, 1−ε_low, 1+ε_high))
        dual clip, where A_t < 0:  L_t = min(that, −A_t c)

    ε_high > ε_low is DAPO's clip-higher. At ρ = 1 the gradient is that of `reinforce`, whatever the clips.

    Args:
        logprobs: logπ_t, nats; the variable.
        proximal_logprobs: logπ_o,t of the policy at the start of the update; constants.
        advantages: A_t; constants.
        is_action: True on action tokens; nothing is read elsewhere.
        clip_low: ε_low.
        clip_high: ε_high.
        dual_clip: c > 1, or None.

    Returns:
        L_t; 0 where not an action.

    Source: Schulman et al. 2017, eq. 7; Ye et al. 2020 (dual clip); Yu et al. 2025 (DAPO, clip-higher).
    """
    advantages = at_actions(advantages, is_action).detach()
    ratio = log_ratio(logprobs, proximal_logprobs.detach(), is_action).exp()
    loss = torch.maximum(-advantages * ratio, -advantages * ratio.clamp(1 - clip_low, 1 + clip_high))
    if dual_clip is None:
        return loss
    return torch.where(advantages < 0, torch.minimum(loss, -advantages * dual_clip), loss)


@jaxtyped(typechecker=beartype)
def is_clipped(
    logprobs: Float[Tensor, "*tokens"],
    proximal_logprobs: Float[Tensor, "*tokens"],
    advantages: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
    *,
    clip_low: float,
    clip_high: float,
) -> Bool[Tensor, "*tokens"]:
    """True on tokens whose gradient PPO's clip cuts: A > 0 and ρ > 1+ε_high, or A < 0 and ρ < 1−ε_low."""
    advantages = at_actions(advantages, is_action)
    ratio = log_ratio(logprobs, proximal_logprobs, is_action).exp()
    return ((advantages > 0) & (ratio > 1 + clip_high)) | ((advantages < 0) & (ratio < 1 - clip_low))


@jaxtyped(typechecker=beartype)
def log_ratio(
    logprobs: Float[Tensor, "*tokens"],
    other_logprobs: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
) -> Float[Tensor, "*tokens"]:
    """Log of π/π_other at action tokens, nats, clamped to ±20 to keep its exponential finite; 0 elsewhere."""
    difference = at_actions(logprobs, is_action) - at_actions(other_logprobs, is_action)
    return difference.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
