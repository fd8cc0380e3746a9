"""Ragged to dense: the place of each item among those that share its key (its episode, its group)."""

import torch
from beartype import beartype
from jaxtyping import Int, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def slots(key: Int[Tensor, " N"], keys: int) -> tuple[Int[Tensor, " N"], Int[Tensor, " K"]]:
    """Number the items of each key 0, 1, 2, … in the order in which they come.

        slot_i = #{j < i : key_j = key_i}        count_k = #{i : key_i = k}

    `dense[key, slot] = items` then lays the items out with one row per key and no two in the same place.

    Args:
        key: of each of N items, in 0 … K−1.
        keys: K, the number of keys; a key may have no item.

    Returns:
        The slot of each item, and the number of items of each key.
    """
    counts = torch.bincount(key, minlength=keys)
    starts = counts.cumsum(0) - counts
    order = torch.argsort(key, stable=True)
    slot = torch.empty_like(key)
    slot[order] = torch.arange(len(key), device=key.device) - starts[key[order]]
    return slot, counts
