"""An episode as reward functions see it: read-only, and nothing in it is hidden from the agent but the rewards."""

from __future__ import annotations

from dataclasses import dataclass

from turngym.envs.messages import Message, ToolCall


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call of a tool, and what came of it."""

    call: ToolCall
    """The call."""
    result: Message
    """The tool message that answered it."""
    in_order: bool
    """True if the tool ran; False if the call was wrong or the tool raised."""


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """The episode so far. Whoever names `trajectory` gets one."""

    messages: tuple[Message, ...]
    """The whole conversation, the results of this turn's calls included."""
    tool_uses: tuple[ToolUse, ...]
    """Every call, in order."""
    turn: int
    """Number of the turn in hand, from 1; of the last one where the episode is over."""
    paid: tuple[float, ...]
    """The reward of each turn that is over: without the turn in hand, unless the episode is over."""
    answer: str
    """Text of the final message; "" if there is none (yet)."""

    @property
    def actions(self) -> tuple[Message, ...]:
        """The assistant's messages, in order."""
        return tuple(message for message in self.messages if message.role == "assistant")
