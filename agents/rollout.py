"""One episode, the only place where an environment meets an agent: reset, then act and step until it ends.

Limits of the runner truncate; what the environment says ends the episode terminates; an exception fails it
and names the guilty party (`failures.py`). Whatever happens, what was seen so far is in the trajectory.

When the wall time is over, the episode is truncated, whoever has the word: the agent decides how many turns it
takes. But if a single reset or step of the environment, the one in progress included, took more than half of that
time, then it hung: that is infrastructure's failure and no score of the agent's (law 10).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from time import perf_counter
from typing import Any

import gymnasium

from turngym.agents.driver import EnvDriver
from turngym.agents.failures import Side, failure
from turngym.agents.limits import Limits
from turngym.agents.protocols import Agent, EpisodeStart, NoiseKey, Player
from turngym.agents.types import Action, Outcome, Trajectory, Turn
from turngym.envs.episode import EpisodeView
from turngym.envs.figures import checked_figures, checked_metrics, checked_reward
from turngym.envs.group_rewards import VIEW_KEY
from turngym.envs.messages import Message, ToolSpec
from turngym.envs.tasks import Task

_log = logging.getLogger(__name__)

_NO_LIMITS = Limits()
_TERMINATED = Outcome("completed", "terminated")
_HUNG_SHARE = 0.5
"""A reset or step that takes more than this share of the wall time hung."""


async def rollout(
    env: gymnasium.Env[Any, Any] | EnvDriver,
    agent: Agent,
    *,
    task: Task | str | None,
    seed: int,
    noise: NoiseKey,
    limits: Limits = _NO_LIMITS,
) -> Trajectory:
    """Play one episode and return its record. The environment stays open.

    Args:
        env: an environment of ours, bare or inside Gymnasium wrappers.
        agent: who plays.
        task: the task or its id; None lets `seed` draw one.
        seed: of the environment's reset. With the same actions it gives the same trajectory.
        noise: names the stream of the agent's sampling noise; `noise.sample` numbers the episode.
        limits: of the runner; the task's own limits hold too, the smaller wins.

    Returns:
        The trajectory. Exceptions of the environment or the agent are in its outcome, not raised.

    Raises:
        UnknownTask: `task` is an id that the environment's task set does not have.
        asyncio.CancelledError: the episode was cancelled; the player has been closed.
    """
    driver = env if isinstance(env, EnvDriver) else EnvDriver(env)
    if isinstance(task, str):
        task = driver.tasks.get(task)
    episode = _Episode(
        driver, agent, task, seed, noise, limits.within(task.limits) if task is not None else limits
    )
    try:
        return await episode.run()
    finally:
        await episode.close()
        if driver is not env:
            driver.release()


class _Episode:
    """What has been seen of an episode so far, so that any exit can make a trajectory of it."""

    __slots__ = (
        "acting", "agent", "anchor", "asked_env", "driver", "group_view", "info", "limits", "longest_env_s",
        "metrics", "noise", "pending", "player", "prompt", "seed", "started", "task", "turns", "unanswered",
    )  # fmt: skip

    def __init__(
        self, driver: EnvDriver, agent: Agent, task: Task | None, seed: int, noise: NoiseKey, limits: Limits
    ) -> None:
        self.driver = driver
        self.agent = agent
        self.task = task
        self.seed = seed
        self.noise = noise
        self.limits = limits
        self.started = perf_counter()
        self.acting: Side = "env"
        # When the environment last got the word, and the most seconds that it kept it.
        self.asked_env = self.started
        self.longest_env_s = 0.0
        self.player: Player | None = None
        self.prompt: tuple[Message, ...] = ()
        self.info: Mapping[str, Any] = {}
        self.turns: list[Turn] = []
        self.metrics: Mapping[str, float] = {}
        self.group_view: EpisodeView | None = None
        # Messages that the player has not answered yet; None while the environment has the word.
        self.pending: tuple[Message, ...] | None = None
        # An action that the environment has not answered (yet), with the agent's time.
        self.unanswered: tuple[Action, float] | None = None
        self.anchor: str | None = None

    async def run(self) -> Trajectory:
        """Play to the end, within the wall time, and turn any exception into an outcome."""
        try:
            async with asyncio.timeout(self.limits.max_seconds) as clock:
                try:
                    outcome = await self._play(clock)
                except asyncio.CancelledError as error:
                    if _is_being_cancelled():
                        raise
                    outcome = self._failed(error)  # something under the episode was cancelled, not we
                except (Exception, SystemExit) as error:  # noqa: BLE001 (law 11: it ends this episode)
                    outcome = self._failed(error)
        except TimeoutError:  # only the clock's: others were caught inside
            outcome = self._out_of_time()
        return self._record(outcome)

    async def close(self) -> None:
        """Release what the player holds; a failure to do so does not undo the episode."""
        if self.player is not None:
            try:
                await self.player.close()
            except Exception:  # noqa: BLE001 (logged; the episode is complete)
                _log.warning("closing the player of task %s failed", self.noise.task, exc_info=True)

    async def _play(self, clock: asyncio.Timeout) -> Outcome:
        await self._reset(clock)
        player = self.player = self._start_player()
        limits = self.limits
        deadline = self.started + limits.max_seconds
        source = self.driver.env_id
        while True:
            self.acting = "agent"
            new = self.pending or ()
            if len(self.turns) >= limits.max_turns:
                return Outcome("truncated", "turns")
            size = player.context_size(new)
            if size is not None and size >= limits.max_tokens:
                return Outcome("truncated", "tokens")
            asked = perf_counter()
            if asked >= deadline:  # an agent and an environment that never wait give the clock no chance
                return self._out_of_time()
            action = await player.act(new, max_tokens=None if size is None else limits.max_tokens - size)
            answered = perf_counter()
            self.pending, self.unanswered = None, (action, answered - asked)
            if action.finish_reason == "length":  # a cut message means something else than the whole one
                return Outcome("truncated", "tokens")

            self.acting, self.asked_env = "env", answered
            observation, reward, terminated, truncated, info = await self.driver.step(action.message)
            env_s = self._env_answered()
            self.turns.append(
                Turn(
                    action,
                    _messages(observation),
                    checked_reward(reward, source),
                    checked_figures(info.get("reward_components"), source),
                    self.anchor,
                    answered - asked,
                    env_s,
                )
            )
            self.pending, self.unanswered = self.turns[-1].observation, None
            self.anchor = info.get("anchor")
            if terminated or truncated:  # where a foreign wrapper sets both, `terminated` wins (law 6)
                self.metrics = checked_metrics(info.get("metrics"), source)
                self.group_view = info.get(VIEW_KEY) if terminated else None
                return _TERMINATED if terminated else Outcome("truncated", "env")

    async def _reset(self, clock: asyncio.Timeout) -> None:
        options = None if self.task is None else {"task": self.task}
        observation, info = await self.driver.reset(seed=self.seed, options=options)
        self._env_answered()
        self.prompt = self.pending = _messages(observation)
        self.info = info
        self.anchor = info.get("anchor")
        if self.task is None:
            self.task = self.driver.tasks.get(info["task_id"])
            self.limits = self.limits.within(self.task.limits)
            elapsed_s = perf_counter() - self.started
            clock.reschedule(asyncio.get_running_loop().time() + self.limits.max_seconds - elapsed_s)

    def _start_player(self) -> Player:
        self.acting = "agent"
        return self.agent.start(EpisodeStart(self.driver.env_id, self._tools(), self.noise, self.task))

    def _tools(self) -> tuple[ToolSpec, ...]:
        return tuple(self.info.get("tools", ()))

    def _env_answered(self) -> float:
        """Note how long the environment had the word, in seconds."""
        env_s = perf_counter() - self.asked_env
        self.longest_env_s = max(self.longest_env_s, env_s)
        return env_s

    def _out_of_time(self) -> Outcome:
        limit_s = self.limits.max_seconds
        if self.player is None:  # the agent never had the word: no score of its own (law 10)
            return Outcome("failed", "infrastructure", f"no reset within {limit_s:g} s")
        if self.acting == "env":
            self._env_answered()
        if self.longest_env_s > _HUNG_SHARE * limit_s:
            hung = f"one reset or step of the environment took {self.longest_env_s:.3g} of the {limit_s:g} s"
            return Outcome(
                "failed", "infrastructure", f"{hung} of an episode: it hangs, or max_seconds is too little"
            )
        return Outcome("truncated", "time")

    def _failed(self, error: BaseException) -> Outcome:
        _log.debug("task %s failed in the %s", self.noise.task, self.acting, exc_info=error)
        return failure(error, self.acting)

    def _record(self, outcome: Outcome) -> Trajectory:
        final: tuple[tuple[int, ...], bool] = ((), False)
        if outcome.truncated and self.pending is not None and self.player is not None:
            try:
                final = self._final_context(self.player, self.pending)
            except Exception as error:  # noqa: BLE001 (law 11)
                self.acting = "agent"
                outcome = self._failed(error)
        if self.unanswered is not None:
            action, agent_s = self.unanswered
            self.turns.append(Turn(action, anchor=self.anchor, agent_s=agent_s))
        task, info = self.task, self.info
        return Trajectory(
            env_id=self.driver.env_id,
            task_id=task.id if task is not None else info.get("task_id", ""),
            task_hash=info.get("task_hash") or (task.content_hash if task is not None else ""),
            seed=self.seed,
            sample=self.noise.sample,
            prompt=self.prompt,
            tools=self._tools(),
            turns=tuple(self.turns),
            outcome=outcome,
            final_context_ids=final[0],
            final_new_segment=final[1],
            metrics=self.metrics,
            wall_s=perf_counter() - self.started,
            group_view=self.group_view,
        )

    def _final_context(self, player: Player, pending: tuple[Message, ...]) -> tuple[tuple[int, ...], bool]:
        """What the next action would have seen, where V(final) is read.

        Left out where one huge observation would make a row of more than twice the token budget: the value
        is then read at the last sampled token.
        """
        size = player.context_size(pending)
        if size is not None and size > 2 * self.limits.max_tokens:
            return (), False
        return player.final_context(pending)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _messages(observation: Any) -> tuple[Message, ...]:
    if not isinstance(observation, (tuple, list)):
        raise TypeError(f"an observation is a tuple of messages, not {type(observation).__name__}")
    messages: tuple[Message, ...] = tuple(observation)
    for message in messages:
        if not isinstance(message, Message):
            raise TypeError(f"an observation is a tuple of messages; it holds a {type(message).__name__}")
    return messages
