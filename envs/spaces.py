"""Gymnasium spaces for conversations: what an observation is (new messages) and what an action is (a reply).

Plain `gymnasium.Space` subclasses: Gymnasium's checkers and its vector environments take them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space

from turngym.envs.errors import InvalidAction
from turngym.envs.messages import Message, ToolSpec, user
from turngym.envs.sampling import random_action, random_words


class MessagesSpace(Space[tuple[Message, ...]]):
    """Tuples of messages, the empty one included."""

    def contains(self, x: Any) -> bool:
        """True for a tuple that holds only messages."""
        return isinstance(x, tuple) and all(isinstance(message, Message) for message in x)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> tuple[Message, ...]:
        """One user message of random words."""
        if mask is not None or probability is not None:
            raise ValueError("messages cannot be enumerated: sample them without mask and probability")
        return (user(random_words(self.np_random)),)

    def to_jsonable(self, sample_n: Iterable[tuple[Message, ...]]) -> list[Any]:
        """Samples as JSON data."""
        return [[message.model_dump(mode="json") for message in sample] for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """Samples back from JSON data."""
        return [tuple(Message.model_validate(message) for message in sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MessagesSpace)

    def __hash__(self) -> int:
        return hash(MessagesSpace)

    def __repr__(self) -> str:
        return "MessagesSpace()"


class ActionSpace(Space["Message | str"]):
    """Replies: any text or assistant message. Nothing that a model can write is outside; nonsense is
    answered, not refused.

    Args:
        tools: the tools on offer; samples call them with random arguments of the right types.
        choices: the sensible texts, where they can be listed; samples are drawn from them, and a mask is over
            them.
        seed: of the space's own generator.
    """

    def __init__(
        self, *, tools: Sequence[ToolSpec] = (), choices: Sequence[str] | None = None, seed: int | None = None
    ) -> None:
        super().__init__(seed=seed)
        self.tools = tuple(tools)
        self.choices = None if choices is None else tuple(choices)

    def contains(self, x: Any) -> bool:
        """True for text and for assistant messages."""
        return isinstance(x, str) or (isinstance(x, Message) and x.role == "assistant")

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> Message | str:
        """A random reply: one of the choices, a well-typed tool call, or words.

        Args:
            mask: int8, one entry per choice; 0 rules a choice out.
            probability: float64, one entry per choice, summing to 1.
        """
        if mask is None and probability is None:
            return random_action(self.np_random, self.tools, self.choices)
        if mask is not None and probability is not None:
            raise ValueError("give a mask or a probability, not both")
        if self.choices is None:
            raise ValueError("this action space lists no choices: sample without mask and probability")
        weights = np.asarray(mask if probability is None else probability, dtype=np.float64)
        if weights.shape != (len(self.choices),) or not weights.sum() > 0 or (weights < 0).any():
            raise ValueError(
                f"expected {len(self.choices)} non-negative entries, one per choice, with one above 0"
            )
        return self.choices[int(self.np_random.choice(len(self.choices), p=weights / weights.sum()))]

    def to_jsonable(self, sample_n: Iterable[Message | str]) -> list[Any]:
        """Samples as JSON data."""
        return [sample if isinstance(sample, str) else sample.model_dump(mode="json") for sample in sample_n]

    def from_jsonable(self, sample_n: list[Any]) -> list[Any]:
        """Samples back from JSON data."""
        return [sample if isinstance(sample, str) else Message.model_validate(sample) for sample in sample_n]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionSpace) and (self.tools, self.choices) == (other.tools, other.choices)

    def __hash__(self) -> int:
        return hash((tuple(tool.name for tool in self.tools), self.choices))

    def __repr__(self) -> str:
        offered = [f"tools={[tool.name for tool in self.tools]}"] if self.tools else []
        listed = [f"{len(self.choices)} choices"] if self.choices is not None else []
        return f"ActionSpace({', '.join(offered + listed)})"


def as_action(action: object) -> Message:
    """What was given to `step` as an assistant message: text, a message, or OpenAI's dictionary form.

    Raises:
        InvalidAction: it is none of these.
    """
    if isinstance(action, Message):
        if action.role != "assistant":
            raise InvalidAction(f"an action is an assistant message; this one's role is {action.role!r}")
        return action
    try:
        if isinstance(action, str):
            return Message(role="assistant", content=action)
        if isinstance(action, dict):
            return as_action(Message.from_wire(action))
    except ValueError as error:
        raise InvalidAction(f"this is not an assistant message: {error}") from error
    raise InvalidAction(f"an action is text or an assistant message, not {type(action).__name__}")
