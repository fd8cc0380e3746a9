"""Are all weights numbers? With one NaN among them a policy says nothing any more, and no update mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

BROKEN = "has entries that are not finite numbers"
"""What is wrong with a tensor that `first_not_finite` names."""


def first_not_finite(values: Any, name: str = "") -> str | None:
    """The name of the first tensor with an entry that is not a finite number; None if there is none.

    Args:
        values: a tensor, or mappings and sequences of them, however nested; anything else in there is passed over.
        name: of the whole.
    """
    if isinstance(values, Tensor):
        sound = not values.is_floating_point() or bool(torch.isfinite(values.detach()).all())
        return None if sound else name
    if isinstance(values, Mapping):
        parts = [(str(key), value) for key, value in values.items()]
    elif isinstance(values, list | tuple):
        parts = [(str(number), value) for number, value in enumerate(values)]
    else:
        return None
    found = (first_not_finite(value, f"{name}.{key}" if name else key) for key, value in parts)
    return next((broken for broken in found if broken is not None), None)
