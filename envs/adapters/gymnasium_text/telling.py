"""How a Gymnasium environment is told in words: its rules, its states, its moves, and what nonsense costs.

A teller makes a `TextGame` of an environment. There is one for each of Gymnasium's text games; any other
environment with countable states and moves is told in numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import gymnasium
from gymnasium.spaces import Discrete, Tuple

from turngym.envs.errors import ContractError


@dataclass(frozen=True, slots=True)
class TextGame:
    """An environment in words."""

    rules: str
    """What the player is told first."""
    actions: tuple[str, ...]
    """A word for each move, in the environment's order."""
    describe: Callable[[Any], str]
    """An observation in one line; different observations read differently."""
    is_success: Callable[[float, bool], bool]
    """Whether an episode succeeded, by its last reward and whether it terminated."""
    invalid_reward: float
    """What a reply pays that is no move. It changes nothing, and must not be a way out: no cheaper than the worst
    that the rest of the game can still bring, or than a wasted move where there is such a thing."""
    invalid_ends: bool = False
    """True if such a reply ends the episode (a game without wasted moves)."""


Teller = Callable[[gymnasium.Env[Any, Any]], TextGame]


def frozen_lake(env: gymnasium.Env[Any, Any]) -> TextGame:
    """Cross a lake; ice may be slippery, holes end the game."""
    lake: Any = env.unwrapped
    rows = [b"".join(row).decode() for row in lake.desc]
    outcomes = lake.P[0][1]
    if len(outcomes) == 1:
        ice = "You go where you want."
    else:
        chance = f"{outcomes[1][0]:.3g}"
        ice = f"The ice is slippery: you go where you want with probability {chance}, else to either side of it."
    wasted = [
        reward for moves in lake.P.values() for o in moves.values() for _, _, reward, ends in o if not ends
    ]
    return TextGame(
        rules="\n".join(
            [
                "Walk over the frozen lake from S to G. F is ice; a hole H ends the game.",
                f"{ice} At the edge you stay.",
                "Reply with one word: left, down, right or up.",
                *rows,
            ]
        ),
        actions=("left", "down", "right", "up"),
        describe=_cell(lake.ncol),
        is_success=lambda reward, terminated: terminated and reward > 0,
        invalid_reward=min(
            0.0, *wasted
        ),  # as much as a walk into the wall, which by default costs but a step
    )


def cliff_walking(env: gymnasium.Env[Any, Any]) -> TextGame:
    """Walk along a cliff."""
    cliff: Any = env.unwrapped
    slips = " It is slippery: you go where you want or to either side of it, each with probability 1/3."
    return TextGame(
        rules="\n".join(
            [
                "Walk from S to G. Each step costs 1; one onto the cliff C costs 100 and takes you back to S.",
                f"At the edge you stay.{slips if cliff.is_slippery else ''}",
                "Reply with one word: up, right, down or left.",
                *["." * 12] * 3,
                f"S{'C' * 10}G",
            ]
        ),
        actions=("up", "right", "down", "left"),
        describe=_cell(cliff.shape[1]),
        is_success=lambda _, terminated: terminated,
        invalid_reward=-1.0,  # as much as a walk into the wall
    )


def taxi(env: gymnasium.Env[Any, Any]) -> TextGame:
    """Take a passenger to where they want to go."""
    cab: Any = env.unwrapped
    places = ("red", "green", "yellow", "blue")
    stands = [*places, "in the taxi"]
    rainy = ""
    if any(len(outcomes) > 1 for outcomes in cab.P[0].values()):
        rainy = f" It rains: you go where you want with probability {cab.rainy_probability:.3g}, else to either side."

    def describe(state: int) -> str:
        row, column, passenger, goal = cab.decode(state)
        return (
            f"taxi at row {row}, column {column}; passenger {stands[passenger]}; destination {places[goal]}"
        )

    return TextGame(
        rules="\n".join(
            [
                "Drive the taxi to the passenger, pick them up, and drop them off at their destination.",
                "The map has 5 rows and 5 columns, from 0. R, G, Y and B are the stands red, green, yellow and blue;",
                f"you cannot drive through a |. Each move costs 1.{rainy}",
                "An impossible pickup or dropoff costs 10; the right dropoff earns 20; one at another stand leaves the",
                "passenger there.",
                "Reply with one word: south, north, east, west, pickup or dropoff.",
                *(b"".join(row).decode() for row in cab.desc),
            ]
        ),
        actions=("south", "north", "east", "west", "pickup", "dropoff"),
        describe=describe,
        is_success=lambda _, terminated: terminated,
        invalid_reward=-1.0,  # as much as a drive into the wall
    )


def blackjack(env: gymnasium.Env[Any, Any]) -> TextGame:
    """Come nearer to 21 than the dealer, without going over."""
    table: Any = env.unwrapped
    if table.sab:
        natural = " An ace and a 10 at once win against anything but the same."
    else:
        natural = " A win with an ace and a 10 at once earns 1.5." if table.natural else ""

    def describe(observation: tuple[int, int, int]) -> str:
        total, shown, usable = observation
        return f"you have {total}{' with an ace counted 11' if usable else ''}; the dealer shows {shown}"

    return TextGame(
        rules="\n".join(
            [
                "Blackjack: come nearer to 21 than the dealer, but not over it. The deck is endless; court cards",
                f"count 10, an ace 11 or 1. The dealer draws to 17. A win earns 1, a loss costs 1.{natural}",
                "Reply with one word: stick or hit. Anything else loses.",
            ]
        ),
        actions=("stick", "hit"),
        describe=describe,
        is_success=lambda reward, _: reward > 0,
        invalid_reward=-1.0,
        invalid_ends=True,
    )


def in_numbers(env: gymnasium.Env[Any, Any]) -> TextGame:
    """Any environment, its states and moves as numbers.

    A reply that is no move pays the least that a move ever pays, and at most 0: then no number of such replies
    earns more than any other way to go on. Where the environment has no table of what moves pay, −1 is taken for
    the least.
    """
    space: Any = env.action_space
    first, last = int(space.start), int(space.start + space.n - 1)
    table = getattr(env.unwrapped, "P", None)
    least = -1.0
    if table is not None:
        least = min(
            float(outcome[2])
            for moves in table.values()
            for outcomes in moves.values()
            for outcome in outcomes
        )
    name = env.spec.id if env.spec else type(env.unwrapped).__name__
    return TextGame(
        rules=f"Play {name}. Reply with a number from {first} to {last}.",
        actions=tuple(str(n) for n in range(first, last + 1)),
        describe=_numbers,
        is_success=lambda reward, terminated: terminated and reward > 0,
        invalid_reward=min(0.0, least),
    )


TELLERS: Final[Mapping[str, Teller]] = {
    "FrozenLakeEnv": frozen_lake,
    "CliffWalkingEnv": cliff_walking,
    "TaxiEnv": taxi,
    "BlackjackEnv": blackjack,
}
"""By the name of the class in `gymnasium.envs.toy_text`."""


def tell(env: gymnasium.Env[Any, Any]) -> TextGame:
    """The environment in the words of its own teller, or in numbers.

    Raises:
        ContractError: its moves or states cannot be counted.
    """
    states, moves = env.observation_space, env.action_space
    parts = states.spaces if isinstance(states, Tuple) else (states,)
    if not isinstance(moves, Discrete) or not all(isinstance(part, Discrete) for part in parts):
        raise ContractError(
            f"{type(env.unwrapped).__name__}: moves must be Discrete, and states Discrete or a Tuple of them, "
            f"not {moves} and {states}"
        )
    kind = type(env.unwrapped)
    is_known = kind.__module__.startswith("gymnasium.envs.toy_text.")
    return TELLERS.get(kind.__name__ if is_known else "", in_numbers)(env)


def _cell(columns: int) -> Callable[[int], str]:
    return lambda state: f"row {state // columns}, column {state % columns}"


def _numbers(observation: Any) -> str:
    if isinstance(observation, tuple):
        return "state " + ", ".join(str(int(part)) for part in observation)
    return f"state {int(observation)}"
