"""Agents without a model: an environment's reference policies, and scripts that replay what they got."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from turngym.agents.errors import AgentError, PolicyError
from turngym.agents.protocols import EpisodeStart, NoiseKey, Player
from turngym.agents.types import Action
from turngym.envs.messages import Message, assistant
from turngym.envs.tasks import Task

ReferencePolicy = Callable[[Task, Sequence[Message], np.random.Generator], Message]
"""A pure function of the task and the conversation so far, prompt included."""

Reply = Action | Message | str
"""What a script may say: text, a message, or a whole action with its tokens."""

Script = Sequence[Reply] | Callable[[EpisodeStart], Iterable[Reply]]
"""The replies of every episode, or a function that gives those of one."""


def noise_generator(noise: NoiseKey) -> np.random.Generator:
    """The generator of one episode: equal keys give equal streams, however episodes were batched (law 9)."""
    text = f"{noise.run_seed}/{noise.step}/{noise.sample}/{noise.task}"
    digest = hashlib.sha256(text.encode(errors="surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "little"))


class PolicyAgent:
    """Plays a reference policy. It is told the whole task, hidden target included, and has no tokens."""

    def __init__(self, policy: ReferencePolicy, name: str) -> None:
        self._policy = policy
        self._name = name

    @property
    def name(self) -> str:
        """The spec that names it."""
        return self._name

    def start(self, episode: EpisodeStart) -> Player:
        """A player for one new episode."""
        if episode.task is None:
            raise AgentError(
                f"the reference policy {self._name!r} needs the episode's task, which is unknown"
            )
        return _PolicyPlayer(self._policy, episode.task, noise_generator(episode.noise))

    async def close(self) -> None:
        """Nothing to release."""


class ScriptedAgent:
    """Replays replies, one a turn: the same in every episode, or those that a function gives for it."""

    def __init__(self, script: Script, name: str = "scripted") -> None:
        self._script = script
        self._name = name

    @property
    def name(self) -> str:
        """The name it was given."""
        return self._name

    def start(self, episode: EpisodeStart) -> Player:
        """A player for one new episode."""
        return _ScriptedPlayer(iter(self._script(episode) if callable(self._script) else self._script))

    async def close(self) -> None:
        """Nothing to release."""


class _TokenlessPlayer:
    """What players without tokens have in common."""

    def context_size(self, new_messages: Sequence[Message]) -> int | None:  # noqa: ARG002
        return None

    def final_context(self, new_messages: Sequence[Message]) -> tuple[tuple[int, ...], bool]:  # noqa: ARG002
        return (), False

    async def close(self) -> None:
        return None


class _PolicyPlayer(_TokenlessPlayer):
    def __init__(self, policy: ReferencePolicy, task: Task, rng: np.random.Generator) -> None:
        self._policy = policy
        self._task = task
        self._rng = rng
        self._history: list[Message] = []

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:  # noqa: ARG002
        self._history.extend(new_messages)
        message = ask(self._policy, self._task, self._history, self._rng)
        self._history.append(message)
        return Action(message)


def ask(policy: ReferencePolicy, task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """What a reference policy says next.

    Raises:
        PolicyError: it raised an exception. That is a mistake of the environment's author and says nothing of
            anybody's skill.
    """
    try:
        return policy(task, history, rng)
    except Exception as error:
        raise PolicyError(
            f"the reference policy failed on task {task.id}: {type(error).__name__}: {error}"
        ) from error


class _ScriptedPlayer(_TokenlessPlayer):
    def __init__(self, replies: Iterator[Reply]) -> None:
        self._replies = replies
        self._turn = 0

    async def act(self, new_messages: Sequence[Message], *, max_tokens: int | None = None) -> Action:  # noqa: ARG002
        try:
            reply = next(self._replies)
        except StopIteration:
            raise LookupError(
                f"the script ended after {self._turn} replies, but the episode goes on"
            ) from None
        self._turn += 1
        if isinstance(reply, Action):
            return reply
        return Action(reply if isinstance(reply, Message) else assistant(reply))
