"""Advantages of whole episodes against their group, which is the baseline: no critic needed.

One reward per episode goes in, one advantage per episode comes out. A missing reward is NaN: it takes no part
in any statistic, and its own advantage is 0.
"""

import warnings
from typing import Literal

import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor

from turngym.trainer.credit.ragged import slots

Std = Literal["none", "group", "batch"]
"""Whose standard deviation divides the centred rewards."""


class SmallGroupWarning(UserWarning):
    """A group has fewer than two rewards, hence no baseline: its advantages are 0 and teach nothing."""


@jaxtyped(typechecker=beartype)
def grpo(
    rewards: Float[Tensor, " E"],
    group: Int[Tensor, " E"],
    *,
    std: Std = "group",
    ddof: int = 1,
    eps: float = 1e-4,
) -> Float[Tensor, " E"]:
    """Reward above the group's mean, in units of a standard deviation.

        A_i = (R_i − mean_g R) / (std R + ε)

    Args:
        rewards: R_i, the total of each episode; NaN if missing.
        group: group of each episode, any integers in any order.
        std: over the `group` (GRPO), over the `batch`, or `none` (no division, no ε: Dr. GRPO).
        ddof: 1 for the sample standard deviation, 0 for the population's.
        eps: added to the standard deviation.

    Returns:
        A_i; exactly 0 in a group whose rewards are all equal, and for a missing reward.

    Source: Shao et al. 2024 (GRPO); Liu et al. 2025 (Dr. GRPO); `batch` is the scale of Liu et al. 2025
        ("Lite PPO").
    """
    place, rewards_PG = _by_group(rewards, group)
    exists_PG = ~rewards_PG.isnan()
    centred_PG = rewards_PG - _mean(rewards_PG, exists_PG).unsqueeze(1)
    if std == "group":
        centred_PG = centred_PG / (_std(rewards_PG, exists_PG, ddof).unsqueeze(1) + eps)
    elif std == "batch":
        centred_PG = centred_PG / (_std(rewards, ~rewards.isnan(), ddof) + eps)
    learns_PG = exists_PG & _varies(rewards_PG, exists_PG).unsqueeze(1)
    return torch.where(learns_PG, centred_PG, 0)[place]


@jaxtyped(typechecker=beartype)
def rloo(
    rewards: Float[Tensor, " E"],
    group: Int[Tensor, " E"],
    *,
    std: Std = "none",
    ddof: int = 1,
    eps: float = 1e-4,
) -> Float[Tensor, " E"]:
    """Reward above the mean of the *other* episodes of the group: a baseline independent of its own.

        A_i = R_i − mean_{j≠i} R_j        ( = G/(G−1) · (R_i − mean_g R) )

    Args:
        rewards: R_i, the total of each episode; NaN if missing.
        group: group of each episode, any integers in any order.
        std: `none` (RLOO); `group` divides by the standard deviation of the others, std_{j≠i} R_j + ε, where
            these differ at all (otherwise the reward stays centred and unscaled); `batch` by that of the
            whole batch + ε.
        ddof: 1 for the sample standard deviation, 0 for the population's.
        eps: added to the standard deviation.

    Returns:
        A_i; exactly 0 in a group whose rewards are all equal, and for a missing reward.

    Source: Kool et al. 2019; Ahmadian et al. 2024.
    """
    place, rewards_PG = _by_group(rewards, group)
    exists_PG = ~rewards_PG.isnan()
    itself_GG = torch.eye(rewards_PG.shape[1], dtype=torch.bool, device=rewards.device)
    others_PGG = exists_PG.unsqueeze(1) & ~itself_GG
    rewards_PGG = rewards_PG.unsqueeze(1).expand(others_PGG.shape)
    centred_PG = rewards_PG - _mean(rewards_PGG, others_PGG)
    if std == "group":
        scaled_PG = centred_PG / (_std(rewards_PGG, others_PGG, ddof) + eps)
        # Asked of the rewards themselves: rounding makes a std of zero 1e-17, and the quotient 1e6.
        centred_PG = torch.where(_varies(rewards_PGG, others_PGG), scaled_PG, centred_PG)
    elif std == "batch":
        centred_PG = centred_PG / (_std(rewards, ~rewards.isnan(), ddof) + eps)
    learns_PG = exists_PG & _varies(rewards_PG, exists_PG).unsqueeze(1)
    return torch.where(learns_PG, centred_PG, 0)[place]


def _by_group(
    rewards: Float[Tensor, " E"], group: Int[Tensor, " E"]
) -> tuple[tuple[Int[Tensor, " E"], Int[Tensor, " E"]], Float[Tensor, "P G"]]:
    """Lay the rewards out in one row per group, NaN where there is none, and say where each episode went."""
    names, row = group.unique(return_inverse=True)
    slot, sizes = slots(row, len(names))
    rewards_PG = rewards.new_full((len(names), int(sizes.max()) if len(names) else 0), torch.nan)
    rewards_PG[row, slot] = rewards
    small = int(((~rewards_PG.isnan()).sum(dim=1) < 2).sum())
    if small:
        warnings.warn(
            f"{small} of {len(names)} groups have fewer than two rewards, hence nothing to compare: "
            "their advantages are 0. Sample at least two episodes of each task.",
            SmallGroupWarning,
            stacklevel=4,
        )
    return (row, slot), rewards_PG


def _mean(x: Float[Tensor, "*rows G"], exists: Bool[Tensor, "*rows G"]) -> Float[Tensor, "*rows"]:
    return torch.where(exists, x, 0).sum(dim=-1) / exists.sum(dim=-1).clamp(min=1)


def _std(x: Float[Tensor, "*rows G"], exists: Bool[Tensor, "*rows G"], ddof: int) -> Float[Tensor, "*rows"]:
    squares = torch.where(exists, x - _mean(x, exists).unsqueeze(-1), 0).square().sum(dim=-1)
    return (squares / (exists.sum(dim=-1) - ddof).clamp(min=1)).sqrt()


def _varies(x: Float[Tensor, "*rows G"], exists: Bool[Tensor, "*rows G"]) -> Bool[Tensor, "*rows"]:
    """True where at least two of the numbers exist and differ."""
    return torch.where(exists, x, -torch.inf).amax(dim=-1) > torch.where(exists, x, torch.inf).amin(dim=-1)
