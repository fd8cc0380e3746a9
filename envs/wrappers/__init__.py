"""Wrappers that keep what Gymnasium's lose: the awaited face, and snapshot, restore and fork.

    env = Recording(TurnLimit(make("turngym/Calculator-v0"), 4), "episodes.jsonl")

They stand above and below Gymnasium's own wrappers, and inside vector environments.
"""

from turngym.envs.wrappers.base import Wrapper
from turngym.envs.wrappers.history import WholeConversation
from turngym.envs.wrappers.limits import TurnLimit, WallTimeLimit
from turngym.envs.wrappers.recording import Recording, read_recording
from turngym.envs.wrappers.shaping import ShapedReward

__all__ = [
    "Recording",
    "ShapedReward",
    "TurnLimit",
    "WallTimeLimit",
    "WholeConversation",
    "Wrapper",
    "read_recording",
]
