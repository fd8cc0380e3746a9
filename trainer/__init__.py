"""Credit, losses, batches and optimisation.

report = train(load_config("calculator.toml"), out="runs/calculator")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if not __name__.startswith("turngym."):
    raise ImportError(
        f"import turngym.{__name__}, not {__name__}: the bare name may belong to another distribution"
    )

if TYPE_CHECKING:
    from turngym.trainer.algorithms import PRESETS as PRESETS
    from turngym.trainer.algorithms import Algorithm as Algorithm
    from turngym.trainer.config import TrainConfig as TrainConfig
    from turngym.trainer.config import load_config as load_config
    from turngym.trainer.config import parse_config as parse_config
    from turngym.trainer.loop import atrain as atrain
    from turngym.trainer.loop import train as train
    from turngym.trainer.report import TrainReport as TrainReport

# Public name -> module that defines it; loaded on first use, so that the mathematics is there without the
# engines.
_LAZY = {
    "PRESETS": "turngym.trainer.algorithms",
    "Algorithm": "turngym.trainer.algorithms",
    "TrainConfig": "turngym.trainer.config",
    "TrainReport": "turngym.trainer.report",
    "atrain": "turngym.trainer.loop",
    "load_config": "turngym.trainer.config",
    "parse_config": "turngym.trainer.config",
    "train": "turngym.trainer.loop",
}

__all__ = [
    "PRESETS",
    "Algorithm",
    "TrainConfig",
    "TrainReport",
    "atrain",
    "load_config",
    "parse_config",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'turngym.trainer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
