"""The decisions of each episode in one row: its action tokens, across its segments, and nothing else.

Credit runs on this view only. Environment tokens, padding, the order of rows and the cuts between segments
are gone before any recursion begins, so they cannot matter (laws 5, 7 and 8). Axis letters: B rows and T
positions of the batch; E episodes and A action tokens of the longest of them.
"""

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from turngym.trainer.credit.ragged import slots


@dataclass(frozen=True, slots=True)
class ActionStream:
    """Where the action tokens of each episode stand in the batch, in the order in which they were sampled."""

    is_action: Bool[Tensor, "E A"]
    """True where episode e has an a-th action token: up to the episode's length."""
    row: Int[Tensor, "E A"]
    """Row of that token in the batch; 0 where there is none."""
    column: Int[Tensor, "E A"]
    """Position of that token in its row; 0 where there is none."""
    batch_shape: tuple[int, int]
    """(B, T) of the batch."""

    @classmethod
    def of(
        cls,
        is_action: Bool[Tensor, "B T"],
        episode: Int[Tensor, " B"],
        segment: Int[Tensor, " B"],
        *,
        episodes: int,
    ) -> Self:
        """Collect the action tokens of each episode in the order of its segments, not of the rows.

        Args:
            is_action: True on sampled tokens.
            episode: episode of each row, in 0 … E−1.
            segment: number of each row within its episode.
            episodes: E; an episode may have no action token.
        """
        by_segment = torch.argsort(segment, stable=True)
        order, column = is_action[by_segment].nonzero(as_tuple=True)
        row = by_segment[order]
        place, counts = slots(episode[row], episodes)
        shape = (episodes, int(counts.max()) if episodes else 0)

        def dense(x: Tensor) -> Tensor:
            out = torch.zeros(shape, dtype=x.dtype, device=x.device)
            out[episode[row], place] = x
            return out

        rows, positions = is_action.shape
        exists = torch.ones_like(row, dtype=torch.bool)
        return cls(dense(exists), dense(row), dense(column), (rows, positions))

    def gather(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, "E A"]:
        """Read a quantity of the batch at the action tokens; 0 beyond an episode's last."""
        return torch.where(self.is_action, x[self.row, self.column], 0)

    def scatter(self, x: Shaped[Tensor, "E A"]) -> Shaped[Tensor, "B T"]:
        """Write a quantity of the action tokens back to their places in the batch; 0 everywhere else."""
        out = torch.zeros(self.batch_shape, dtype=x.dtype, device=x.device)
        out[self.row[self.is_action], self.column[self.is_action]] = x[self.is_action]
        return out


@dataclass(frozen=True, slots=True)
class Episodes:
    """All that an advantage may look at: E episodes as streams of at most A action tokens."""

    is_action: Bool[Tensor, "E A"]
    """True where there is an action token. Nothing below may be read where it is False."""
    turn: Int[Tensor, "E A"]
    """Turn in which the token was sampled."""
    rewards: Float[Tensor, "E A"]
    """Reward paid after the token; NaN if it could not be computed."""
    values: Float[Tensor, "E A"]
    """The critic's prediction before the token; 0 for algorithms without a critic."""
    final_value: Float[Tensor, " E"]
    """Value of what follows the last action token: the critic's if the episode was truncated, otherwise 0."""
    final_turn: Int[Tensor, " E"]
    """Turn that this value belongs to; read only where the episode was truncated."""
    group: Int[Tensor, " E"]
    """Group (task) of the episode."""

    @property
    def total_reward(self) -> Float[Tensor, " E"]:
        """Undiscounted reward R_i of each episode; NaN if any part of it is missing."""
        paid = torch.where(self.is_action, self.rewards, 0)
        # Summed wide and rounded once: the same rewards in another order must not make two episodes differ.
        return paid.sum(dim=1, dtype=torch.float64).to(paid.dtype)
