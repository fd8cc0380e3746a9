"""Generalised advantage estimation over turns: how much better each token did than the critic expected."""

import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def gae(
    rewards: Float[Tensor, "E A"],
    values: Float[Tensor, "E A"],
    is_action: Bool[Tensor, "E A"],
    turn: Int[Tensor, "E A"],
    final_value: Float[Tensor, " E"],
    final_turn: Int[Tensor, " E"],
    *,
    gamma_token: float,
    gamma_turn: float,
    lam_token: float,
    lam_turn: float,
) -> Float[Tensor, "E A"]:
    """Generalised advantage of each action token, with its own discount inside a turn and across turns.

        δ_t = r_t + γ_t V_{t+1} − V_t        A_t = δ_t + γ_t λ_t A_{t+1}        A_{T+1} = 0

    t counts the episode's action tokens: t+1 is the *next action token*, however many environment tokens lie
    between. (γ_t, λ_t) = (γ_token, λ_token) if t+1 belongs to the same turn, (γ_turn, λ_turn) if it belongs
    to another. Plain GAE is the case in which the two pairs agree.

    Args:
        rewards: r_t, paid after token t.
        values: V_t, predicted before token t.
        is_action: True on action tokens; nothing is read where it is False, and the recursion passes over it.
        turn: turn of each token.
        final_value: V_{T+1}: 0 if terminated, the critic's prediction if truncated (see `bootstrap`).
        final_turn: turn that V_{T+1} belongs to: the turn after the last, or the last if that was cut in its
            middle.

    Returns:
        A_t; 0 where not an action. The critic's targets are A_t + V_t, before any whitening.

    Source: Schulman et al. 2016, eq. 16.
    """
    (token_gamma, turn_gamma), (token_lam, turn_lam) = values.new_tensor(
        [[gamma_token, gamma_turn], [lam_token, lam_turn]]
    )
    advantages = torch.zeros_like(rewards)
    next_advantage = torch.zeros_like(final_value)
    next_value = final_value
    next_turn = final_turn
    for t in reversed(range(rewards.shape[1])):
        same_turn = turn[:, t] == next_turn
        gamma_t = torch.where(same_turn, token_gamma, turn_gamma)
        lam_t = torch.where(same_turn, token_lam, turn_lam)
        delta_t = rewards[:, t] + gamma_t * next_value - values[:, t]
        advantage_t = delta_t + gamma_t * lam_t * next_advantage

        acts = is_action[:, t]
        advantages[:, t] = torch.where(acts, advantage_t, 0)
        next_advantage = torch.where(acts, advantage_t, next_advantage)
        next_value = torch.where(acts, values[:, t], next_value)
        next_turn = torch.where(acts, turn[:, t], next_turn)
    return advantages


@jaxtyped(typechecker=beartype)
def bootstrap(
    final_value: Float[Tensor, " E"], terminated: Bool[Tensor, " E"], truncated: Bool[Tensor, " E"]
) -> Float[Tensor, " E"]:
    """Value of what follows the last action: the critic's iff the episode was only cut off.

    Where both flags are set, `terminated` wins: nothing follows a terminal state (law 6). Nothing is read
    where the episode was not truncated.
    """
    return torch.where(truncated & ~terminated, final_value, 0)
