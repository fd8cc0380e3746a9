"""Cutting a batch: mini-batches of whole episodes for one optimiser step each, micro-batches that fit into
memory.

A micro-batch holds all rows of its episodes, so a ratio over a whole episode never crosses a cut. Nothing is
averaged here: normalisers are counted over the mini-batch and passed to every micro-batch of it (law 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from turngym.trainer.batch import Batch
from turngym.trainer.forward import Rows


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Some rows of a batch, cut to the width that they need."""

    rows: Int[Tensor, "b"]
    """Which rows of the batch."""
    width: int
    """How many positions of them."""

    def of(self, table: Shaped[Tensor, "B T"]) -> Shaped[Tensor, "b t"]:
        """The part of a table of the batch that belongs to these rows."""
        return table[self.rows, : self.width]

    def put(self, table: Shaped[Tensor, "B T"], part: Shaped[Tensor, "b t"]) -> None:
        """Write these rows' part of a table of the batch."""
        table[self.rows, : self.width] = part.to(device=table.device, dtype=table.dtype)

    def tokens(self, batch: Batch, device: torch.device) -> Rows:
        """The rows as the model reads them."""
        return Rows(*(self.of(table).to(device) for table in (batch.ids, batch.is_real, batch.is_action)))


def needed_width(batch: Batch) -> Int[Tensor, "B"]:
    """Positions of each row that anything is read from: up to its last action token, or to where V(final) is
    read.

    Environment tokens after that influence nothing, since every model here is causal. A row may need none at
    all.
    """
    positions = torch.arange(1, batch.ids.shape[1] + 1)
    width = torch.where(batch.is_action, positions, 0).amax(dim=1)
    reads = batch.truncated & (batch.bootstrap_row >= 0)
    return width.scatter_reduce(0, batch.bootstrap_row[reads], batch.bootstrap_position[reads] + 1, "amax")


def final_positions(batch: Batch) -> Int[Tensor, "B"]:
    """For each row, where V(final) of its episode is read; −1 for the others."""
    out = torch.full((len(batch.episode),), -1)
    reads = batch.truncated & (batch.bootstrap_row >= 0)
    out[batch.bootstrap_row[reads]] = batch.bootstrap_position[reads]
    return out


def minibatches(episodes: int, count: int, generator: torch.Generator) -> list[Int[Tensor, "e"]]:
    """Shuffle the episodes into `count` nearly equal parts (fewer if there are fewer episodes)."""
    order = torch.randperm(episodes, generator=generator)
    return [part for part in order.tensor_split(min(count, episodes)) if len(part)]


def microbatches(batch: Batch, episodes: Int[Tensor, "e"], *, max_tokens: int) -> Iterator[MicroBatch]:
    """Cut some episodes of a batch into micro-batches of at most `max_tokens` positions, padding included.

    Episodes are taken in order of length, so that rows of a micro-batch need little padding. An episode that
    is too long by itself is a micro-batch of its own.
    """
    widths = needed_width(batch).tolist()
    rows_of: dict[int, list[int]] = {int(e): [] for e in episodes}
    for row, episode in enumerate(batch.episode.tolist()):
        if episode in rows_of and widths[row] > 0:
            rows_of[episode].append(row)
    longest = {e: max(widths[row] for row in rows) for e, rows in rows_of.items() if rows}
    taken: list[int] = []
    width = 0
    for e in sorted(longest, key=lambda e: (-longest[e], e)):
        if taken and (len(taken) + len(rows_of[e])) * width > max_tokens:
            yield MicroBatch(torch.tensor(taken), width)
            taken = []
        if not taken:
            width = longest[e]
        taken += rows_of[e]
    if taken:
        yield MicroBatch(torch.tensor(taken), width)
