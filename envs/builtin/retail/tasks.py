"""Retail tasks: a random shop, a customer with requests, and what would be right; as many as one likes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final, Literal, get_args

import numpy as np

from turngym.envs.builtin.retail.requests import GRANTED, OUTCOMES, Case, Kind, case_of, request_of
from turngym.envs.builtin.retail.scenario import Answer, Request, Scenario
from turngym.envs.builtin.retail.world import Dice, World
from turngym.envs.messages import user
from turngym.envs.tasks import GeneratedTasks, Task

Difficulty = Literal["single", "forbidden", "several", "change", "identity"]
DIFFICULTIES: Final[tuple[Difficulty, ...]] = get_args(Difficulty)
_KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_NEIGHBOURS: Final[Mapping[Kind, tuple[Kind, ...]]] = {
    "cancel": ("address", "payment"),
    "return": ("exchange",),
    "exchange": ("return",),
    "address": ("cancel", "payment"),
    "payment": ("cancel", "address"),
}
"""What one can want of the same order after changing one's mind."""
_GREETINGS: Final = ("Hello!", "Hi!", "Good morning.", "Good afternoon.", "Hello, I need your help.")
_TALK_AT_LENGTH: Final = 2
"""Requests up to which the customer waits to be asked for each detail; after that they know what will be asked."""

Plan = tuple[Kind, str]


def task_set(difficulty: Difficulty | Literal["mixed"]) -> GeneratedTasks:
    """Tasks of one difficulty, or of all in equal shares; `train` is endless, `test` has 10,000."""
    kinds = DIFFICULTIES if difficulty == "mixed" else (difficulty,)
    generate = functools.partial(random_task, difficulties=kinds)
    return GeneratedTasks(f"retail-{difficulty}", generate, sizes={"train": None, "test": 10_000})


def random_task(rng: np.random.Generator, difficulties: tuple[Difficulty, ...]) -> Task:
    """A task of one of these difficulties; its id is left to the task set."""
    dice = Dice(rng)
    difficulty = dice.choose(difficulties)
    plans = _plans(dice, difficulty)
    world = World(dice, poor=any(outcome == "LOW-BALANCE" for _, outcome in plans))
    asked = _asked(world, plans, changes_mind=difficulty == "change")
    account = world.customer
    emails, postcodes, matches = _identity(world, doubtful=difficulty == "identity")
    if not matches:
        asked = [(request, Answer(code="ID-MISMATCH")) for request, _ in asked]
    scenario = Scenario(
        name=account.name, emails=emails, postcodes=postcodes, requests=tuple(request for request, _ in asked)
    )
    return Task(
        id="task",
        prompt=(user(f"{dice.choose(_GREETINGS)} {scenario.requests[0].wish}"),),
        target=[answer.model_dump(mode="json", exclude_defaults=True) for _, answer in asked],
        metadata={
            "today": world.today.isoformat(),
            "rows": world.rows(),
            "scenario": scenario.model_dump(mode="json", exclude_defaults=True),
        },
        tags=(difficulty, *sorted({kind for kind, _ in plans})),
    )


def _plans(dice: Dice, difficulty: Difficulty) -> list[Plan]:
    """Kinds and outcomes of the requests."""
    kind = dice.choose(_KINDS)
    if difficulty == "forbidden":
        return [(kind, dice.choose(OUTCOMES[kind]))]
    if difficulty == "several":
        return [_any_plan(dice) for _ in range(dice.pick(2, 3))]
    if difficulty == "change":
        plans: list[Plan] = [(kind, GRANTED), (dice.choose(_NEIGHBOURS[kind]), GRANTED)]
        return [*plans, _any_plan(dice)] if dice.chance(25) else plans
    return [(kind, GRANTED)]


def _any_plan(dice: Dice) -> Plan:
    kind = dice.choose(_KINDS)
    return kind, GRANTED if dice.chance(70) else dice.choose(OUTCOMES[kind])


def _asked(world: World, plans: list[Plan], *, changes_mind: bool) -> list[tuple[Request, Answer]]:
    """The requests with what is right; where the customer changes their mind, the second is about the same order."""
    asked: list[tuple[Request, Answer]] = []
    before: Case | None = None
    for number, (kind, outcome) in enumerate(plans):
        case = before if before is not None and number == 1 else case_of(world, kind, outcome)
        request, answer = request_of(world, kind, outcome, case)
        if changes_mind and number == 0:
            before = case
            request = request.model_copy(update={"abandoned": True})
        if number > 0 and len(plans) > _TALK_AT_LENGTH:
            request = request.model_copy(
                update={"wish": " ".join((request.wish, *request.details.values())), "details": {}}
            )
        asked.append((request, answer))
    return asked


def _identity(world: World, *, doubtful: bool) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Email addresses and postcodes that the customer gives, first and when asked again; whether the last match."""
    account, dice = world.customer, world.dice
    email, postcode = account.email, account.address.postcode
    if not doubtful:
        return (email,), (postcode,), True
    wrong = str(world.number(5))
    way = dice.pick(1, 5)
    if way == 1:  # a slip that they mend when asked again
        return (email,), (wrong, postcode), True
    if way == 2:
        return (_misspelt(dice, email), email), (postcode,), True
    if way == 3:  # somebody else's account
        return (world.others[0].email,), (postcode,), False
    if way == 4:
        return (_misspelt(dice, email),), (postcode,), False
    return (email,), (wrong,), False


def _misspelt(dice: Dice, email: str) -> str:
    """The address with one letter of its name doubled."""
    place = dice.pick(0, 2)
    return email[:place] + email[place] + email[place:]
