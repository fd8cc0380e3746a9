"""A short name for a model's weights: equal for equal weights on any machine, another when any of them changes.

Sums of bit patterns are whole numbers, so neither the order of additions nor the device matters; they cost one
pass over the memory.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_AT_ONCE = 1 << 22


@torch.no_grad()
def fingerprint(model: nn.Module) -> str:
    """16 hex digits over the names, types, shapes and sums of a model's parameters (tied ones count once).

    A single weight that changes, by however little, always changes it; several that make up for each other could
    escape it only by chance.
    """
    digest = hashlib.sha256()
    for name, parameter in sorted(model.named_parameters()):
        digest.update(f"{name} {parameter.dtype} {tuple(parameter.shape)} {_bit_sum(parameter)}\n".encode())
    return digest.hexdigest()[:16]


def _bit_sum(weights: Tensor) -> int:
    """The sum of the bit patterns, modulo 2⁶⁴."""
    bits = weights.detach().contiguous().view(_INTEGERS[weights.element_size()]).flatten()
    # In parts: to sum in 64 bits, the CPU makes a copy of them.
    sums = [int(part.sum(dtype=torch.int64)) for part in bits.split(_AT_ONCE)]
    return sum(sums) % 2**64
