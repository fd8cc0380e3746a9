"""The keys and values of many contexts at once, each in its own row, each at its own length.

The transformers library hands every layer's new keys and values to a cache and attends over what the cache
returns. This one writes them at positions that differ from row to row, and returns the rows of the current
batch cut to the longest of them. Axis letters: S rows, H key-value heads, C capacity, D head size; R rows of
a batch, Q new tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache


@dataclass(frozen=True, slots=True)
class CachePlan:
    """Where the new keys and values of one forward pass go, and what its queries may look at."""

    rows: slice | Tensor
    """Cache rows of the batch: a slice from 0 (no copy is made), or an index, [R]."""
    length: int
    """The batch attends over this many first positions."""
    source: Tensor | None
    """Index of the real tokens among the R·Q of the batch, [N]; None if all are real."""
    target_rows: Tensor
    """Cache row of each real token, [N]."""
    target_positions: Tensor
    """Position of each real token, [N]."""


class SlotCache(Cache):  # type: ignore[misc]
    """Keys and values in preallocated buffers [S, H, C, D] per layer, grown by doubling.

    Set `plan` before each forward pass. Unused positions hold zeros or stale numbers, never NaN: attention
    multiplies masked values by 0, and 0 · NaN would be NaN.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self.plan: CachePlan | None = None
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        self._rows = 0
        self._capacity = 0

    def reserve(self, rows: int, length: int) -> None:
        """Make room for this many rows and positions."""
        if rows <= self._rows and length <= self._capacity:
            return
        self._rows = max(rows, min(2 * self._rows, rows + 64)) if rows > self._rows else self._rows
        self._capacity = max(length, 2 * self._capacity, 64) if length > self._capacity else self._capacity
        self._keys = [self._enlarge(buffer) for buffer in self._keys]
        self._values = [self._enlarge(buffer) for buffer in self._values]

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Each attention layer calls it: store [R, H, Q, D], return what to look at, [R, H, length, D]."""
        if self.plan is None:
            raise RuntimeError("set SlotCache.plan before a forward pass")
        if layer_idx == len(self._keys):
            self._keys.append(self._buffer(key_states))
            self._values.append(self._buffer(value_states))
        return (
            self._store(self._keys[layer_idx], key_states, self.plan),
            self._store(self._values[layer_idx], value_states, self.plan),
        )

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Give `target` the first `length` positions of `source`."""
        for buffer in (*self._keys, *self._values):
            buffer[target, :, :length] = buffer[source, :, :length]

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchange the first `length` positions of two rows."""
        for buffer in (*self._keys, *self._values):
            held = buffer[a, :, :length].clone()
            buffer[a, :, :length] = buffer[b, :, :length]
            buffer[b, :, :length] = held

    def clear(self, row: int | None = None) -> None:
        """Overwrite one row with zeros, or give up all buffers; the next forward pass makes new ones."""
        if row is None:
            self._keys.clear()
            self._values.clear()
        for buffer in (*self._keys, *self._values):
            buffer[row].zero_()

    def get_seq_length(self, _layer_idx: int = 0) -> int:
        """Asked for by models that were given no positions; ours always get theirs."""
        return 0

    def _buffer(self, states: Tensor) -> Tensor:
        _, heads, _, size = states.shape
        return states.new_zeros(self._rows, heads, self._capacity, size)

    def _enlarge(self, buffer: Tensor) -> Tensor:
        rows, heads, capacity, size = buffer.shape
        larger = buffer.new_zeros(self._rows, heads, self._capacity, size)
        larger[:rows, :, :capacity] = buffer
        return larger

    @staticmethod
    def _store(buffer: Tensor, states: Tensor, plan: CachePlan) -> Tensor:
        tokens = states.transpose(1, 2).flatten(0, 1)
        if plan.source is not None:
            tokens = tokens[plan.source]
        buffer[plan.target_rows, :, plan.target_positions] = tokens
        return buffer[plan.rows, :, : plan.length]
