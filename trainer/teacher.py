"""A reference policy that plays in tokens: what a language model would have sampled, had it said the same.

It is a `ChatAgent` whose engine takes dictation instead of sampling. Its episodes are ordinary trajectories
with the contexts that the model will see, so a warm start learns from exactly those ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turngym.agents.chat import ChatAgent
from turngym.agents.errors import AgentError, TemplateError
from turngym.agents.protocols import EpisodeStart, GenerateRequest, Generation, Player, Renderer, Sampling
from turngym.agents.simple import ReferencePolicy, ask, noise_generator
from turngym.agents.types import Action, FinishReason
from turngym.envs.messages import Message, ToolSpec, user

_QUESTION = user("?")


class TeacherAgent:
    """Plays a reference policy through a renderer; its actions carry tokens, with logprobs of 0 (it is
    certain)."""

    def __init__(
        self,
        policy: ReferencePolicy,
        renderer: Renderer,
        name: str,
        *,
        max_context: int,
        system_prompt: str | None = None,
    ) -> None:
        """Let a policy teach.

        Args:
            policy: what to say.
            renderer: of the model that will learn from it.
            name: of the policy.
            max_context: the most tokens of a context of that model.
            system_prompt: as in `ChatAgent`.
        """
        self._policy = policy
        self._dictionary = _Dictionary(renderer)
        self._name = name
        self._max_context = max_context
        self._system_prompt = system_prompt

    @property
    def name(self) -> str:
        """The name of the policy."""
        return self._name

    def start(self, episode: EpisodeStart) -> Player:
        """A player for one new episode."""
        if episode.task is None:
            raise AgentError(
                f"the reference policy {self._name!r} needs the episode's task, which is unknown"
            )
        return _TeacherPlayer(self._policy, episode, self._dictionary, self._max_context, self._system_prompt)

    async def close(self) -> None:
        """Nothing to release."""


class _TeacherPlayer:
    """Asks the policy what to say and lets a chat player say it."""

    def __init__(
        self,
        policy: ReferencePolicy,
        episode: EpisodeStart,
        dictionary: _Dictionary,
        max_context: int,
        system_prompt: str | None,
    ) -> None:
        assert episode.task is not None
        self._policy = policy
        self._task = episode.task
        self._tools = episode.tools
        self._rng = noise_generator(episode.noise)
        self._dictionary = dictionary
        self._engine = _Dictation(max_context)
        sampling = Sampling(max_tokens=max_context)
        chat = ChatAgent(self._engine, dictionary.renderer, sampling, system_prompt=system_prompt)
        self._player = chat.start(episode)
        self._heard: list[Message] = []

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:
        """Say what the policy says."""
        self._heard.extend(new_messages)
        message = ask(self._policy, self._task, self._heard, self._rng)
        self._engine.ids = self._dictionary.spell(message, self._tools)
        action = await self._player.act(new_messages, max_tokens=max_tokens)
        self._heard.append(action.message)
        return action

    def context_size(self, new_messages: Sequence[Message]) -> int | None:
        """Tokens that the context would have if these messages came next."""
        return self._player.context_size(new_messages)

    def final_context(self, new_messages: Sequence[Message]) -> tuple[tuple[int, ...], bool]:
        """What the next action would have seen after the last one."""
        return self._player.final_context(new_messages)

    async def close(self) -> None:
        """Nothing to release."""


class _Dictionary:
    """How messages are spelt in the tokens of a chat template, looked up once each."""

    def __init__(self, renderer: Renderer) -> None:
        self.renderer = renderer
        self._known: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._before = renderer.render([_QUESTION], ())

    def spell(self, message: Message, tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        """The ids that say a message, the end of the turn included.

        They are what the message adds to a short conversation, up to the first token that ends a turn.

        Raises:
            TemplateError: the template never ends the turn, or reads the ids back as another message.
        """
        key = _said(message)
        if key not in self._known:
            self._known[key] = self._spell(message, tools)
        return self._known[key]

    def _spell(self, message: Message, tools: Sequence[ToolSpec]) -> tuple[int, ...]:
        renderer = self.renderer
        # A call is spelt the same whether or not the tools are shown; without them the conversation is short.
        before = self._before
        after = renderer.render([_QUESTION, message], ())
        end = next((at for at in range(len(before), len(after)) if after[at] in renderer.stop_ids), None)
        if after[: len(before)] != before or end is None:
            raise TemplateError(
                f"the chat template ({renderer.name}) adds no finished turn for {message.wire()}: "
                "it cannot be warm-started from a reference policy"
            )
        ids = after[len(before) : end + 1]
        heard = renderer.parse(ids, tools)
        if _said(heard) != _said(message):
            raise TemplateError(
                f"the chat template ({renderer.name}) writes {message.wire()}, but it reads back as "
                f"{heard.wire()}: it cannot be warm-started from a reference policy"
            )
        return ids


def _said(message: Message) -> tuple[object, ...]:
    """What matters in an assistant's message."""
    calls = tuple((call.name, call.function.arguments) for call in message.tool_calls)
    return message.text.strip(), (message.reasoning_content or "").strip(), calls


class _Dictation:
    """An `Engine` that "samples" what it was told to."""

    policy_version = 0

    def __init__(self, max_context: int) -> None:
        self.max_context = max_context
        self.ids: tuple[int, ...] = ()

    async def generate(self, request: GenerateRequest) -> Generation:
        ids = self.ids[: request.sampling.max_tokens]
        reason: FinishReason = "stop" if len(ids) == len(self.ids) else "length"
        return Generation(ids, (0.0,) * len(ids), reason, self.policy_version)

    async def release(self, session: str) -> None:
        """Nothing is kept."""

    async def update_weights(self, weights: Any, *, policy_version: int) -> None:
        """There are none."""

    async def close(self) -> None:
        """Nothing to release."""
