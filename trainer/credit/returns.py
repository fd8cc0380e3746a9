"""Discounted reward-to-go: what was still to be earned when a token was sampled."""

import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def reward_to_go(
    rewards: Float[Tensor, "E A"],
    is_action: Bool[Tensor, "E A"],
    turn: Int[Tensor, "E A"],
    *,
    gamma_token: float,
    gamma_turn: float,
) -> Float[Tensor, "E A"]:
    """Discounted sum of the rewards from each action token on.

        G_t = r_t + γ_t G_{t+1}        G_{T+1} = 0

    t counts the episode's action tokens. γ_t = γ_token if t+1 belongs to the same turn, γ_turn otherwise. The
    running return survives environment tokens: it is neither reset nor discounted there.

    Args:
        rewards: r_t, paid after token t.
        is_action: True on action tokens; nothing is read where it is False, and the recursion passes over it.
        turn: turn of each token.

    Returns:
        G_t; 0 where not an action.

    Source: Williams 1992; Hu et al. 2025 (REINFORCE++) whiten it.
    """
    token_gamma, turn_gamma = rewards.new_tensor([gamma_token, gamma_turn])
    returns = torch.zeros_like(rewards)
    next_return = rewards.new_zeros(rewards.shape[0])
    next_turn = turn.new_full((turn.shape[0],), -1)
    for t in reversed(range(rewards.shape[1])):
        gamma_t = torch.where(turn[:, t] == next_turn, token_gamma, turn_gamma)
        return_t = rewards[:, t] + gamma_t * next_return

        acts = is_action[:, t]
        returns[:, t] = torch.where(acts, return_t, 0)
        next_return = torch.where(acts, return_t, next_return)
        next_turn = torch.where(acts, turn[:, t], next_turn)
    return returns
