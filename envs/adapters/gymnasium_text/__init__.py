"""Gymnasium's games with countable states and actions as conversations: the state is told, the move is a word."""

from turngym.envs.adapters.gymnasium_text.environment import GymnasiumText
from turngym.envs.adapters.gymnasium_text.telling import TextGame

__all__ = ["GymnasiumText", "TextGame"]
