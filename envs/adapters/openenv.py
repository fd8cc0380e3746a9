"""An environment on an OpenEnv server (Meta, Hugging Face) as an environment here. Extra: `openenv`.

    env = OpenEnv("http://127.0.0.1:8000")

OpenEnv's environments speak in records, each of its own shape. Two functions translate: `to_action` makes the server's
action of the agent's message, `to_text` makes text of what the server answers. The defaults are those of most text
environments: the action is `{"message": …}`; the answer is its one text, or else its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.errors import InfrastructureError, MissingExtra
from turngym.envs.messages import Message, user
from turngym.envs.replay import Replay
from turngym.envs.tasks import ListTasks, Task, TaskSet
from turngym.sandboxes.async_bridge import hop

try:
    from openenv.core.generic_client import GenericEnvClient
except ImportError as missing:
    raise MissingExtra(
        f'openenv-core is not installed ({missing}): pip install "turngym[openenv]"'
    ) from missing

Record = Mapping[str, Any]
_BAD_ACTION: Final = ("VALIDATION_ERROR", "INVALID_JSON")
"""Errors of the server that say that the action was not understood: news for the agent."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said to a reset or an action."""

    observation: Record
    reward: float
    done: bool
    complaint: str = ""
    """Why the action was not understood; the state is as it was."""


def message_of(action: Message) -> Record:
    """The agent's text under the name `message`."""
    return {"message": action.text}


def text_of(observation: Record) -> str:
    """The observation's only text, or else the whole of it as JSON."""
    texts = [value for value in observation.values() if isinstance(value, str) and value]
    if len(texts) == 1:
        return texts[0]
    return json.dumps(dict(observation), ensure_ascii=False, sort_keys=True)


def seeds(train: int = 1000, test: int = 200) -> ListTasks:
    """Tasks that are nothing but the seed of the server's reset; no seed is in two splits."""
    return ListTasks(
        train=[_seeded(n) for n in range(train)], test=[_seeded(n) for n in range(train, train + test)]
    )


def _seeded(number: int) -> Task:
    return Task(id=f"seed-{number}", prompt=(), metadata={"seed": number})


class OpenEnv(Env):
    """Play an environment of an OpenEnv server; each episode has a connection of its own.

    `done` terminates. A server that fails or cannot be reached is an infrastructure failure, and so is a fork
    whose repeated actions are answered differently; an action that the server does not understand is answered with
    its complaint, and counts as a turn.

    Args:
        url: of the server.
        tasks: the arguments of the server's reset are in each task's metadata. Default: 1,000 seeds for training
            and 200 others for testing.
        to_action: the agent's message as the server's action.
        to_text: the server's observation as text.
        system_prompt: what the agent is told first: the server's rules, if it does not tell them itself.
        max_turns: a rule: the episode ends after so many actions.
        reward_range: bounds of an episode's reward, which OpenEnv does not declare.
        timeout_s: of the connection and of each answer.
        split: "train" or "test".
    """

    kind: ClassVar[str] = "adapter"
    shared: ClassVar[tuple[str, ...]] = ("_to_action", "_to_text")

    def __init__(
        self,
        url: str,
        *,
        tasks: TaskSet | None = None,
        to_action: Callable[[Message], Record] = message_of,
        to_text: Callable[[Record], str] = text_of,
        system_prompt: str | None = None,
        max_turns: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        timeout_s: float = 60.0,
        split: str | None = None,
    ) -> None:
        super().__init__(tasks=tasks or seeds(), split=split)
        self._url = url
        self._to_action = to_action
        self._to_text = to_text
        self._system_prompt = system_prompt
        self._timeout_s = timeout_s
        self.max_turns = max_turns
        self.reward_range = reward_range
        self._episode: Replay[_Connection, Record, Answer] | None = None

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Connect, and reset the server's environment with the task's arguments."""
        await self._leave()
        prompt, info = await super().areset(seed=seed, options=options)
        url, timeout_s, arguments = self._url, self._timeout_s, dict(self.task.metadata)
        self._episode = Replay(
            start=lambda: hop(_Connection.open(url, timeout_s, arguments)),
            say=lambda connection, action: hop(connection.step(action)),
            stop=lambda connection: hop(connection.close()),
        )
        self._actions, self._paid = 0, 0.0
        opening = (await self._episode.live()).opening
        first = () if self._system_prompt is None else (Message(role="system", content=self._system_prompt),)
        return (*first, *prompt, user(self._to_text(opening.observation))), info

    async def astep(self, action: Message) -> StepResult:
        """Send the action, and show the answer."""
        assert self._episode is not None
        self._actions += 1
        answer = await self._episode.send(self._to_action(action))
        self._paid += answer.reward
        observation = (user(answer.complaint or self._to_text(answer.observation)),)
        components = {"environment": answer.reward} if answer.reward else {}
        if not answer.done and self._actions != self.max_turns:
            return observation, answer.reward, False, False, {"reward_components": components}
        await self._leave()
        metrics = {"success": float(answer.done and self._paid >= self.reward_range[1] - 1e-9)}
        return observation, answer.reward, True, False, {"reward_components": components, "metrics": metrics}

    async def aclose(self) -> None:
        """Leave the server."""
        await self._leave()

    async def _leave(self) -> None:
        if self._episode is not None:
            await self._episode.aclose()


class _Connection:
    """One episode on the server. Lives on one event loop."""

    def __init__(self, client: Any, opening: Answer) -> None:
        self._client = client
        self.opening = opening

    @classmethod
    async def open(cls, url: str, timeout_s: float, arguments: Mapping[str, Any]) -> _Connection:
        """Connect and reset.

        Raises:
            InfrastructureError: the server cannot be reached, or fails.
        """
        client = GenericEnvClient(url, connect_timeout_s=timeout_s, message_timeout_s=timeout_s)
        try:
            return cls(client, _answer(await client.reset(**arguments)))
        except Exception as error:
            await client.close()
            raise InfrastructureError(f"the OpenEnv server at {url} failed at reset: {error}") from error

    async def step(self, action: Record) -> Answer:
        """Take one action.

        Raises:
            InfrastructureError: the server fails, or is silent for too long.
        """
        try:
            return _answer(await self._client.step(dict(action)))
        except Exception as error:
            if isinstance(error, RuntimeError) and any(
                f"(code: {code})" in str(error) for code in _BAD_ACTION
            ):
                return Answer({}, 0.0, False, complaint=f"Error: this action was not understood: {error}")
            raise InfrastructureError(
                f"the OpenEnv server failed: {type(error).__name__}: {error}"
            ) from error

    async def close(self) -> None:
        """Disconnect."""
        await self._client.close()


def _answer(result: Any) -> Answer:
    return Answer(result.observation, float(result.reward or 0.0), bool(result.done))
