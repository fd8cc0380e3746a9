"""How a learning rate or a coefficient falls over a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final


def _constant(_: float) -> float:
    return 1.0


def _linear(progress: float) -> float:
    return 1.0 - progress


def _cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


SCHEDULES: Final[Mapping[str, Callable[[float], float]]] = MappingProxyType(
    {"constant": _constant, "linear": _linear, "cosine": _cosine}
)
"""Share that is left, by the share of the run that is done (0 … 1)."""
