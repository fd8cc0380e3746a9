"""The seams of the agent layer: agents, engines and renderers as small protocols.

Agent.start(episode) → Player          one player per episode
Player.act(new messages) → Action      rendered by a Renderer, sampled by an Engine
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from turngym.agents.types import Action, FinishReason
from turngym.envs.messages import Message, ToolSpec
from turngym.envs.tasks import Task


@dataclass(frozen=True, slots=True)
class NoiseKey:
    """Names one episode's stream of sampling noise; the token's number is the counter (law 9)."""

    run_seed: int
    """Seed of the run."""
    step: int
    """Optimisation step (0 in evaluation)."""
    task: str
    """Id of the task."""
    sample: int
    """Number of the episode among those of its task."""


@dataclass(frozen=True, slots=True)
class EpisodeStart:
    """What a player is told when an episode begins."""

    env_id: str
    """Id of the environment."""
    tools: tuple[ToolSpec, ...]
    """The tools on offer."""
    noise: NoiseKey
    """Where this episode's randomness comes from."""
    task: Task | None = None
    """The whole task, hidden target included: only reference policies of the environment may look at it."""


class Player(Protocol):
    """An agent's side of one episode."""

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:
        """Answer the new messages (the prompt first, then each observation).

        Args:
            new_messages: what was added since the last action.
            max_tokens: the most tokens that may be sampled in this turn; None for the agent's own limit.

        Raises:
            EngineError: the engine failed; the episode is retried.
        """
        ...

    def context_size(self, new_messages: Sequence[Message]) -> int | None:
        """Tokens that the context would have before sampling, if `new_messages` came next; None if unknown."""
        ...

    def final_context(self, new_messages: Sequence[Message]) -> tuple[tuple[int, ...], bool]:
        """The ids that the next action would have seen after the last one, and whether they start a new segment."""
        ...

    async def close(self) -> None:
        """Release what the episode holds (cached keys and values). Safe to call twice."""
        ...


class Agent(Protocol):
    """Something that can play episodes, many at once.

    One whose name does not say all that decides how it plays has a method `describe` too (`description.py`).
    """

    @property
    def name(self) -> str:
        """The spec that names it, such as `expert` or `hf:PATH`."""
        ...

    def start(self, episode: EpisodeStart) -> Player:
        """A player for one new episode."""
        ...

    async def close(self) -> None:
        """Release everything. Safe to call twice."""
        ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Only what the trainer can reproduce exactly is allowed when training."""

    temperature: float = 1.0
    """Divides the logits, on the trainer's side too; 0 is greedy (evaluation only)."""
    max_tokens: int = 256
    """The most tokens of one turn."""
    top_p: float = 1.0
    """Nucleus; below 1 it is refused in training unless the trainer reproduces the support."""
    top_k: int = 0
    """0 means all."""


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One continuation to sample."""

    prompt_ids: tuple[int, ...]
    """The whole context. An engine may reuse cached keys and values of its longest known prefix in `session`."""
    session: str
    """Names the episode, so that its cache can be kept between turns; `release` forgets it."""
    sampling: Sampling
    """How to draw."""
    noise: NoiseKey
    """Whose stream of uniform numbers to use."""
    noise_offset: int
    """Number of the first token of this turn within the episode's stream (the action tokens sampled so far)."""
    stop_ids: tuple[int, ...]
    """Sampling one of these ends the turn; the token itself is part of the action."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A sampled continuation."""

    ids: tuple[int, ...]
    """The sampled tokens, a sampled stop token included."""
    logprobs: tuple[float, ...]
    """Nats, under the distribution that was sampled from."""
    finish_reason: FinishReason
    """"stop" if a stop token was sampled, "length" if the limit came first."""
    policy_version: int
    """Version of the weights that sampled the last token."""


class Engine(Protocol):
    """Token ids in, token ids and logprobs out; many requests at once, batched as the engine sees fit."""

    @property
    def policy_version(self) -> int:
        """Number of weight updates so far."""
        ...

    @property
    def max_context(self) -> int:
        """The most tokens that a context may have, the sampled ones included."""
        ...

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample one continuation.

        Raises:
            EngineError: the engine failed.
        """
        ...

    async def release(self, session: str) -> None:
        """Forget what is cached for a session. Unknown sessions are ignored."""
        ...

    async def update_weights(self, weights: Any, *, policy_version: int) -> None:
        """Take new weights (an engine says which form it takes) and drop every cache made with the old ones."""
        ...

    async def close(self) -> None:
        """Release everything. Safe to call twice."""
        ...


class Renderer(Protocol):
    """Messages to token ids and back, for one chat template. What it cannot render or encode is a TemplateError."""

    @property
    def name(self) -> str:
        """What renders: the library's renderer or our bridge, for reports."""
        ...

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an assistant's turn, all of them."""
        ...

    def render(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """The ids of a whole conversation, ending with the generation prompt."""
        ...

    def extend(
        self,
        previous_ids: Sequence[int],
        new_messages: Sequence[Message],
        tools: Sequence[ToolSpec],
        history: Sequence[Message],
    ) -> tuple[int, ...] | None:
        """The ids to append to `previous_ids` (which end with the sampled action), up to the next generation prompt.

        `history` is the conversation before `new_messages`. None where the template cannot extend these tokens:
        then a new segment starts from `render(history + new_messages)`.
        """
        ...

    def parse(self, action_ids: Sequence[int], tools: Sequence[ToolSpec]) -> Message:
        """The assistant's message in the sampled ids; malformed tool calls are kept with their raw text."""
        ...

    def describe(self) -> Mapping[str, str]:
        """What was chosen and why, for the run's record."""
        ...
