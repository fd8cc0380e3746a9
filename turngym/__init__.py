"""turngym: a gym for language-model agents, and the trainer that learns from their episodes."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from turngym.api import evaluate as evaluate
    from turngym.api import rollout as rollout
    from turngym.api import train as train
    from turngym.envs import make as make
    from turngym.envs import register as register

# Public name -> module that defines it; loaded on first use, so that `import turngym` stays instant.
_LAZY = {
    "make": "turngym.envs",
    "register": "turngym.envs",
    "rollout": "turngym.api",
    "evaluate": "turngym.api",
    "train": "turngym.api",
}

__all__ = ["__version__", "evaluate", "make", "register", "rollout", "train"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'turngym' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_LAZY))
