"""What the best player of a game knows: the exact solution of each of its variants, and where a task starts."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from turngym.envs.adapters.gymnasium_text.telling import TextGame
from turngym.envs.errors import ContractError
from turngym.envs.exact import MDP, Solution, mdp_of, return_deviation, value_iteration
from turngym.envs.exact.mdp import Floats
from turngym.envs.messages import Message, assistant
from turngym.envs.policies import Optimum
from turngym.envs.tasks import Task

Arguments = Mapping[str, Any]
Open = Callable[[Arguments], tuple[gymnasium.Env[Any, Any], TextGame]]
"""Makes the game's environment and its telling, with the arguments that a task adds."""


@dataclass(frozen=True, slots=True)
class Solved:
    """One variant of a game, solved."""

    env: gymnasium.Env[Any, Any]
    """A copy of the environment, to look where tasks start."""
    game: TextGame
    """The game in words."""
    solution: Solution
    """The best policy."""
    deviation: Floats
    """Standard deviation of its return; shaped as its values."""
    state_of: Mapping[str, int]
    """State by its description; of states that look alike, one: the best move is the same in all of them."""


class Oracle:
    """The exact solutions of a game's variants, each worked out when it is first asked for.

    Args:
        open_game: makes the environment.
        limit: steps after which an episode is cut.
    """

    def __init__(self, open_game: Open, limit: int | None) -> None:
        self._open = open_game
        self._limit = limit
        self._solved = functools.lru_cache(maxsize=256)(self._solve)

    def __deepcopy__(self, memo: dict[int, Any]) -> Oracle:
        return self  # it only knows, and never changes

    def act(self, task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
        """The best move in the last state that was told, with the steps that are left."""
        solved = self._of(task)
        step = sum(message.role == "assistant" for message in history)
        for message in reversed(history):
            state = solved.state_of.get(message.text.rpartition("\n")[2])
            if state is not None and message.role == "user":
                return assistant(solved.game.actions[solved.solution.action(state, step)])
        raise ContractError(f"the conversation tells no state of {task.id}")

    def optimum(self, task: Task) -> Optimum:
        """What the best policy earns from the task's start."""
        solved = self._of(task)
        mdp, solution = solved.solution.mdp, solved.solution
        means, deviations = (
            array if self._limit is None else array[0] for array in (solution.values, solved.deviation)
        )
        seed = task.metadata.get("seed")
        if seed is not None:
            start = mdp.start_state(_hashable(solved.env.reset(seed=seed)[0]))
            return Optimum(float(means[start]), float(deviations[start]))
        mean = mdp.mean(means)
        return Optimum(mean, math.sqrt(max(0.0, mdp.mean(deviations**2 + means**2) - mean**2)))

    def _of(self, task: Task) -> Solved:
        return self._solved(json.dumps(task.metadata.get("arguments", {}), sort_keys=True))

    def _solve(self, arguments: str) -> Solved:
        env, game = self._open(json.loads(arguments))
        mdp = mdp_of(env)
        solution = value_iteration(mdp, limit=self._limit)
        deviation = return_deviation(mdp, solution.policy, limit=self._limit)
        return Solved(env, game, solution, deviation, _by_description(mdp, game, solution))


def _by_description(mdp: MDP, game: TextGame, solution: Solution) -> dict[str, int]:
    state_of: dict[str, int] = {}
    for state, observation in enumerate(mdp.observations):
        first = state_of.setdefault(game.describe(observation), state)
        if (solution.policy[..., first] != solution.policy[..., state]).any():
            raise ContractError(
                f"the best move in {game.describe(observation)!r} depends on what is not told"
            )
    return state_of


def _hashable(observation: Any) -> Hashable:
    if isinstance(observation, tuple):
        return tuple(int(part) for part in observation)
    return int(observation)
