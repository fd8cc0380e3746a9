"""The agent that trains: a language model behind an engine, talking in tokens through a renderer.

A player keeps two records of its episode side by side: the conversation, as messages, and the tokens that the
engine saw and sampled. The next prompt is always those tokens and what the renderer adds; only where the chat
template does not allow that does a new segment start from the whole conversation (law 1).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from turngym.agents.description import description
from turngym.agents.errors import AgentError, TemplateError
from turngym.agents.protocols import Engine, EpisodeStart, GenerateRequest, Renderer, Sampling
from turngym.agents.types import Action, Tokens
from turngym.envs.messages import Message, system

_DEFAULT_SAMPLING = Sampling()


class ChatAgent:
    """Plays any number of episodes at once on one engine."""

    def __init__(
        self,
        engine: Engine,
        renderer: Renderer,
        sampling: Sampling = _DEFAULT_SAMPLING,
        name: str = "chat",
        system_prompt: str | None = None,
    ) -> None:
        """Put a model to work.

        Args:
            engine: samples tokens. The agent closes it.
            renderer: of the model's chat template.
            sampling: how tokens are drawn, and the most tokens of one turn.
            name: the spec that names the agent.
            system_prompt: replaces the system message of every task, or is added where a task has none.
        """
        self.engine = engine
        self.renderer = renderer
        self.sampling = sampling
        self.system_prompt = system_prompt
        self.turn_count = 0
        """Turns played so far."""
        self.segment_breaks = 0
        """How many of them could not extend the tokens before them, because of the chat template."""
        self._name = name
        self._sessions = itertools.count()

    @property
    def name(self) -> str:
        """The spec that names it."""
        return self._name

    def describe(self) -> Mapping[str, Any]:
        """What decides how it plays: sampling, prompt, template, weights."""
        renderer = self.renderer
        return {
            "sampling": asdict(self.sampling),
            "system_prompt": self.system_prompt,
            "renderer": renderer.name,
            "template": renderer.describe().get("template"),
            "stop_ids": sorted(renderer.stop_ids),
            "engine": description(self.engine),
        }

    def start(self, episode: EpisodeStart) -> ChatPlayer:
        """A player for one new episode."""
        noise = episode.noise
        # A retry of the same episode may start before the failed attempt has let its session go.
        session = f"{noise.run_seed}/{noise.step}/{noise.task}/{noise.sample}#{next(self._sessions)}"
        return ChatPlayer(self, episode, session)

    async def close(self) -> None:
        """Close the engine. Safe to call twice."""
        await self.engine.close()


@dataclass(frozen=True, slots=True)
class _Context:
    """What the engine would be shown next."""

    messages: tuple[Message, ...]
    """The messages that it answers."""
    new_ids: tuple[int, ...]
    """The ids that are added: all of them in a new segment."""
    prompt_ids: tuple[int, ...]
    """The whole prompt."""
    new_segment: bool
    """True if the prompt does not extend what was seen before."""


class ChatPlayer:
    """One episode of a `ChatAgent`."""

    def __init__(self, agent: ChatAgent, episode: EpisodeStart, session: str) -> None:
        self.segment_breaks = 0
        """Segments beyond the first so far."""
        self._agent = agent
        self._tools = episode.tools
        self._noise = episode.noise
        self._session = session
        self._history: tuple[Message, ...] = ()
        self._ids: tuple[int, ...] = ()  # everything the engine saw and sampled in the current segment
        self._turn_count = 0
        self._sampled_count = 0
        self._next: _Context | None = None
        self._closed = False

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:
        """Sample the answer to the new messages.

        Where the context leaves no room for a token, the action is empty and its finish reason "length".

        Raises:
            EngineError: the engine failed. The player is as before, so that the turn can be tried again.
            TemplateError: the chat template cannot render the conversation.
        """
        agent = self._agent
        context = self._context(new_messages)
        room = agent.engine.max_context - len(context.prompt_ids)
        limit = min(agent.sampling.max_tokens, room, room if max_tokens is None else max_tokens)
        if limit < 1:
            tokens = Tokens(context.new_ids, (), (), context.new_segment)
            action = Action(
                Message(role="assistant", content=""), tokens, "length", agent.engine.policy_version
            )
            self._remember(context, action, ())
            return action
        generation = await agent.engine.generate(
            GenerateRequest(
                prompt_ids=context.prompt_ids,
                session=self._session,
                sampling=_limited(agent.sampling, limit),
                noise=self._noise,
                noise_offset=self._sampled_count,
                stop_ids=agent.renderer.stop_ids,
            )
        )
        action = Action(
            message=self._with_own_ids(agent.renderer.parse(generation.ids, self._tools), context.messages),
            tokens=Tokens(context.new_ids, generation.ids, generation.logprobs, context.new_segment),
            finish_reason=generation.finish_reason,
            policy_version=generation.policy_version,
        )
        self._remember(context, action, generation.ids)
        return action

    def context_size(self, new_messages: Sequence[Message]) -> int:
        """Tokens that the context would have before sampling, if `new_messages` came next.

        Raises:
            TemplateError: the chat template cannot render the conversation.
        """
        return len(self._context(new_messages).prompt_ids)

    def final_context(self, new_messages: Sequence[Message]) -> tuple[tuple[int, ...], bool]:
        """The ids that the next action would have seen after the last, and whether they are a new segment.

        Without new messages nothing came after the last action.
        """
        if not new_messages:
            return (), False
        context = self._context(new_messages)
        return context.new_ids, context.new_segment

    async def close(self) -> None:
        """Let the engine forget the episode. Safe to call twice."""
        if not self._closed:
            self._closed = True
            await self._agent.engine.release(self._session)

    def _context(self, new_messages: Sequence[Message]) -> _Context:
        messages = tuple(new_messages)
        if self._next is None or self._next.messages != messages:
            self._next = self._new_context(messages)
        return self._next

    def _new_context(self, messages: tuple[Message, ...]) -> _Context:
        try:
            return self._rendered(messages)
        except AgentError:
            raise
        except Exception as error:  # a renderer is foreign code: what it raises is no doing of the policy's
            raise TemplateError(
                f"the renderer {self._agent.renderer.name} cannot encode this conversation "
                f"({type(error).__name__}: {error}): change the messages, or choose another renderer"
            ) from error

    def _rendered(self, messages: tuple[Message, ...]) -> _Context:
        renderer = self._agent.renderer
        first = self._turn_count == 0
        said = self._opening(messages) if first else messages
        added = None if first else renderer.extend(self._ids, said, self._tools, self._history)
        if added is not None:
            return _Context(messages, added, self._ids + added, new_segment=False)
        ids = renderer.render((*self._history, *said), self._tools)
        return _Context(messages, ids, ids, new_segment=not first)

    def _opening(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The first messages, with the agent's own system prompt if it has one."""
        prompt = self._agent.system_prompt
        if prompt is None:
            return messages
        rest = messages[1:] if messages and messages[0].role == "system" else messages
        return (system(prompt), *rest)

    def _remember(self, context: _Context, action: Action, sampled_ids: tuple[int, ...]) -> None:
        said = self._opening(context.messages) if self._turn_count == 0 else context.messages
        self._history = (*self._history, *said, action.message)
        self._ids = context.prompt_ids + sampled_ids
        self._sampled_count += len(sampled_ids)
        self._turn_count += 1
        self._next = None
        self._agent.turn_count += 1
        if context.new_segment:
            self.segment_breaks += 1
            self._agent.segment_breaks += 1

    def _with_own_ids(self, message: Message, new_messages: tuple[Message, ...]) -> Message:
        """The message with tool-call ids that nobody has used in this conversation."""
        if not message.tool_calls:
            return message
        used = {call.id for known in (*self._history, *new_messages) for call in known.tool_calls}
        names = (f"call_{self._turn_count}_{number}" for number in itertools.count())
        fresh = (name for name in names if name not in used)
        calls = tuple(call.model_copy(update={"id": next(fresh)}) for call in message.tool_calls)
        return message.model_copy(update={"tool_calls": calls})


def _limited(sampling: Sampling, max_tokens: int) -> Sampling:
    return sampling if sampling.max_tokens == max_tokens else replace(sampling, max_tokens=max_tokens)
