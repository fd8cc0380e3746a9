"""Masking by selection, so that a NaN where nothing counts reaches neither loss nor gradient."""

import torch
from torch import Tensor


def at_actions(x: Tensor, is_action: Tensor) -> Tensor:
    """x where an action stands, 0 elsewhere.

    Applied to the *inputs* of a formula. Applied to its result only, the backward pass would multiply a
    gradient of 0 with the derivative at a position that must not be read, and 0 · NaN is NaN.
    """
    return torch.where(is_action, x, 0)
