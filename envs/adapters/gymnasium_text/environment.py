"""GymnasiumText: a Gymnasium environment with countable states and moves, played in words.

    env = GymnasiumText("FrozenLake-v1", is_slippery=False, limit=20)
    env.reset(seed=0)        # the rules, the map, and "row 0, column 0"
    env.step("right")        # "row 0, column 1"

The environment underneath decides everything: states, rewards, ends. Added are the words, the count of steps, and what
happens to a reply that is no move.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Literal

import gymnasium
from gymnasium.wrappers import OrderEnforcing

from turngym.envs.adapters.gymnasium_text.oracle import Oracle
from turngym.envs.adapters.gymnasium_text.starts import SeedTasks
from turngym.envs.adapters.gymnasium_text.telling import Teller, TextGame, tell
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.exact import MDP, mdp_of, return_range
from turngym.envs.messages import Message, user
from turngym.envs.policies import Optimum, ReferencePolicy
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import Task, TaskSet

Maker = str | Callable[..., gymnasium.Env[Any, Any]]
Limit = int | Literal["spec"] | None
_MOST_TEXTS: Final = 10_000


class GymnasiumText(Env):
    """Play a Gymnasium environment by naming moves.

    The first message tells the rules and the state, each later one the state. A reply is a move if it is exactly
    one of the names, white space around it aside. Any other changes nothing, is told so, counts as a step, and pays
    what the game's telling says: as much as a wasted move, or the loss of the game where there is no such thing. So
    it is never a way out.

    `limit` steps truncate the episode, as Gymnasium's own TimeLimit does; a terminated episode is never truncated
    too. The task fixes the start, through the seed of the environment's reset; what luck brings afterwards depends
    on the seed of the episode. So the members of a group start alike and go on differently.

    Metrics: `success`; `invalid` (replies that were no move). Anchor: the state.

    Environments with a table of outcomes (Gymnasium's `P`; Blackjack's is written out) have an `expert`, which
    plays the best policy for the steps that are left, and `optimum`, which says what it earns.

    Args:
        env: id of the environment, or a function that makes it.
        game: makes the words; default: Gymnasium's text games have words of their own, all else is told in numbers.
        tasks: where episodes start: `metadata["seed"]` is given to the environment's reset (none: the episode's
            seed decides the start too), and `metadata["arguments"]` added to its arguments. Default: a seed for
            each task.
        limit: steps after which an episode is truncated; "spec": as the environment is registered; None: never.
        reward_range: bounds of an episode's reward; default: exact where there is a table of outcomes, else none.
        split: "train" or "test".
        kwargs: arguments of the environment.

    Raises:
        ContractError: moves or states cannot be counted.
        ValueError: limit < 1.
    """

    kind: ClassVar[str] = "game"
    shared: ClassVar[tuple[str, ...]] = (
        *("game", "mdp", "_texts", "_index", "_table", "_oracle", "_kwargs", "_arguments"),
    )

    def __init__(
        self,
        env: Maker,
        /,
        *,
        game: Teller = tell,
        tasks: TaskSet | None = None,
        limit: Limit = "spec",
        reward_range: tuple[float, float] | None = None,
        split: str | None = None,
        **kwargs: Any,
    ) -> None:
        name = env if isinstance(env, str) else getattr(env, "__qualname__", repr(env))
        variant = json.dumps(kwargs, sort_keys=True, default=repr)
        super().__init__(tasks=tasks or SeedTasks(f"{name} {variant}"), split=split)
        self._make, self._teller, self._kwargs = env, game, kwargs
        self._open({})
        if limit == "spec":
            limit = gymnasium.spec(env).max_episode_steps if isinstance(env, str) else None
        if limit is not None and limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self.limit: int | None = limit
        """Steps after which an episode is truncated."""
        self.mdp: MDP | None = _table_of(self._env)
        """The table of outcomes, where there is one (of the variant without a task's own arguments)."""
        self._oracle = Oracle(functools.partial(opened, env, game, kwargs), limit)
        if self.mdp is not None:
            self.is_stochastic = not self.mdp.is_deterministic
            reward_range = reward_range or _range(self.mdp, self.game, limit)
        if reward_range is not None:
            self.reward_range = reward_range

    def _open(self, arguments: Mapping[str, Any]) -> None:
        """Make the environment, with what a task adds to its arguments."""
        self._env, self.game = opened(self._make, self._teller, self._kwargs, arguments)
        self._arguments = arguments
        self._table = getattr(self._env.unwrapped, "P", None)
        self._texts: dict[Any, tuple[tuple[Message, ...], dict[str, str]]] = {}
        moves: Any = self._env.action_space
        self._index = {word: n for n, word in enumerate(self.game.actions, start=int(moves.start))}
        self.action_space = ActionSpace(choices=self.game.actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:  # noqa: ARG002
        """Start the environment as the task says; what is random from then on comes from this episode's generator."""
        arguments = self.task.metadata.get("arguments", {})
        if arguments != self._arguments:
            self._open(arguments)
        inner = self._env.unwrapped
        start = self.task.metadata.get("seed")
        if start is None:
            inner.np_random = self.np_random
        observation, _ = self._env.reset(seed=start)
        inner.np_random = self.np_random
        self._steps = self._invalid = 0
        self._state = observation
        (told,), info = self._told(observation)
        return (user(f"{self.game.rules}\n{told.text}"),), dict(info)

    def step(self, action: Message) -> StepResult:
        """Make a move, if it is one."""
        self._steps += 1
        move = None if action.tool_calls else self._index.get(action.text.strip())
        if move is None:
            return self._refused()
        observation, reward, terminated, truncated, _ = self._env.step(move)
        self._state = observation
        messages, info = self._told(observation)
        paid = float(reward)
        truncated = not terminated and (truncated or self._steps == self.limit)
        info = info | {"reward_components": {"game": paid}}
        if terminated or truncated:
            info["metrics"] = self._metrics(self.game.is_success(paid, terminated))
        return messages, paid, terminated, truncated, info

    @property
    def expert(self) -> ReferencePolicy | None:
        """The best policy for the steps that are left; None where there is no table of outcomes."""
        return None if self.mdp is None else self._oracle.act

    def optimum(self, task: Task) -> Optimum:
        """What the best policy earns from the task's start within the limit."""
        return super().optimum(task) if self.mdp is None else self._oracle.optimum(task)

    def close(self) -> None:
        """Close the environment underneath."""
        self._env.close()

    def _refused(self) -> StepResult:
        self._invalid += 1
        paid, terminated = self.game.invalid_reward, self.game.invalid_ends
        truncated = not terminated and self._steps == self.limit
        info: dict[str, Any] = self._told(self._state)[1] | {"reward_components": {"invalid": paid}}
        if terminated or truncated:
            info["metrics"] = self._metrics(False)
        return (user(f"not one of: {', '.join(self.game.actions)}"),), paid, terminated, truncated, info

    def _metrics(self, success: bool) -> dict[str, float]:
        return {"success": float(success), "invalid": float(self._invalid)}

    def _told(self, observation: Any) -> tuple[tuple[Message, ...], dict[str, Any]]:
        """The state as messages and its anchor; made once for each state."""
        known = self._texts.get(observation)
        if known is None:
            text = self.game.describe(observation)
            known = (user(text),), {"anchor": text}
            if len(self._texts) < _MOST_TEXTS:
                self._texts[observation] = known
        return known


def opened(
    make: Maker, teller: Teller, kwargs: Mapping[str, Any], arguments: Mapping[str, Any]
) -> tuple[gymnasium.Env[Any, Any], TextGame]:
    """The environment, without wrappers that only check and count, and its words."""
    if isinstance(make, str):
        env = gymnasium.make(make, max_episode_steps=-1, disable_env_checker=True, **{**kwargs, **arguments})
        while isinstance(env, OrderEnforcing):
            env = env.env
    else:
        env = make(**{**kwargs, **arguments})
    return env, teller(env)


def _table_of(env: gymnasium.Env[Any, Any]) -> MDP | None:
    try:
        return mdp_of(env)
    except ValueError:
        return None


def _range(mdp: MDP, game: TextGame, limit: int | None) -> tuple[float, float]:
    """Bounds over all policies and all luck, replies that are no moves included."""
    low, high = return_range(
        mdp.with_idle_action(reward=game.invalid_reward, ends=game.invalid_ends), limit=limit
    )
    return (low, high) if math.isfinite(high) else (low, math.inf)
