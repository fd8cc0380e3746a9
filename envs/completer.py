"""Whatever completes a conversation: how a model reaches an environment that needs one (a simulated user, a judge).

Environments know nothing of models: whoever makes one passes a `Completer` in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from turngym.envs.messages import Message


@runtime_checkable
class Completer(Protocol):
    """Says the next message of a conversation. One serves many episodes at once, and keeps nothing of them."""

    async def complete(self, messages: Sequence[Message]) -> Message:
        """The assistant message that follows these messages.

        Raises:
            InfrastructureError: no answer came; the episode is retried, never scored.
        """
        ...
