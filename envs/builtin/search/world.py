"""A world that does not exist: people, companies, towns, works, regions and lakes, and facts that fit together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.schema import RELATIONS, Value
from turngym.envs.builtin.search.words import COLOURS, FORMS, INDUSTRIES, PRODUCTS, PROFESSIONS, Namer

SHARES: Final[Mapping[str, float]] = {
    "region": 0.02, "lake": 0.02, "town": 0.11, "person": 0.36, "company": 0.15, "work": 0.2,
}  # fmt: skip
"""Share of the documents that are about each kind of thing; the rest are notes that only mention things."""
_TODAY: Final = 2024
_GROWN_UP: Final = 20


@dataclass(frozen=True)
class World:
    """Things by name, and what is true of them."""

    kinds: dict[str, str] = field(default_factory=dict)
    """The kind of each thing."""
    words: dict[str, str] = field(default_factory=dict)
    """What a document calls each thing after its first sentence: "She", "The town"."""
    facts: dict[str, dict[str, Value]] = field(default_factory=dict)
    """For each thing, the value of each relation that holds."""
    subjects: dict[tuple[str, Value], list[str]] = field(default_factory=dict)
    """For each relation and value, the things of which it is true."""

    def of_kind(self, kind: str) -> list[str]:
        """The names of a kind, in the order in which they were made."""
        return [name for name, its in self.kinds.items() if its == kind]

    def add(self, name: str, kind: str, word: str) -> None:
        """A new thing."""
        self.kinds[name], self.words[name], self.facts[name] = kind, word, {}

    def state(self, subject: str, relation: str, value: Value) -> None:
        """A new fact."""
        assert RELATIONS[relation].subject == self.kinds[subject]
        self.facts[subject][relation] = value
        self.subjects.setdefault((relation, value), []).append(subject)


def make_world(seed: int, size: int) -> World:
    """The world of that number, in which about `size` documents can be written; the same on every machine."""
    dice = Dice.seeded(f"turngym/Search/world/{seed}/{size}")
    world = World()
    _name_things(world, dice, {kind: max(2, round(share * size)) for kind, share in SHARES.items()})
    _places(world, dice)
    _people(world, dice)
    _companies(world, dice)
    _works(world, dice)
    return world


def _name_things(world: World, dice: Dice, counts: Mapping[str, int]) -> None:
    """Names that are easily mistaken for each other: families share a surname, and companies and works borrow names
    of people and towns that they have nothing to do with."""
    namer = Namer(dice)
    first_names = tuple(namer.root(1 + number % 2) for number in range(80))
    surnames = tuple(namer.root() for _ in range(10 + counts["person"] // 4))
    for _ in range(counts["region"]):
        world.add(namer.new("{}ia", "{}land"), "region", "The region")
    for _ in range(counts["lake"]):
        world.add(namer.new("Lake {}"), "lake", "The lake")
    for _ in range(counts["town"]):
        world.add(namer.new("{}", "{}", "New {}", "Upper {}"), "town", "The town")
    towns = tuple(world.of_kind("town"))
    for _ in range(counts["person"]):
        forms = f"{dice.choice(first_names)} {{}}", f"{dice.choice(first_names)} {dice.choice(surnames)}"
        world.add(namer.new(*forms, roots=surnames), "person", dice.choice(("He", "She")))
    for _ in range(counts["company"]):
        world.add(
            namer.new(f"{{}} {dice.choice(INDUSTRIES)}", roots=surnames + towns), "company", "The company"
        )
    for _ in range(counts["work"]):
        form = dice.choice(FORMS)
        world.add(namer.new(f"{dice.choice(COLOURS)} {{}}", roots=surnames + towns), "work", f"The {form}")


def _places(world: World, dice: Dice) -> None:
    regions, lakes, towns, people = (world.of_kind(kind) for kind in ("region", "lake", "town", "person"))
    for lake in lakes:
        world.state(lake, "depth", dice.pick(12, 980))
        world.state(lake, "surveyor", dice.choice(people))
    for number, town in enumerate(towns):
        region = regions[number] if number < len(regions) else dice.choice(regions)
        world.state(town, "region", region)
        if dice.chance(0.4):
            world.state(town, "shore", dice.choice(lakes))
        if dice.chance(0.9):
            world.state(town, "charter", dice.pick(1050, 1650))
        if dice.chance(0.95):
            world.state(town, "population", dice.pick(900, 340_000))
        if dice.chance(0.9):
            world.state(town, "mayor", dice.choice(people))
    for region in regions:
        world.state(region, "capital", dice.choice(world.subjects["region", region]))
        world.state(region, "area", dice.pick(800, 64_000))


def _people(world: World, dice: Dice) -> None:
    people, towns, companies = (world.of_kind(kind) for kind in ("person", "town", "company"))
    for number, person in enumerate(people):
        born = dice.pick(1925, 1985)
        world.state(person, "birth year", born)
        if dice.chance(0.95):
            world.state(person, "birthplace", dice.choice(towns))
        if dice.chance(0.85):
            world.state(person, "home", dice.choice(towns))
        if dice.chance(0.9):
            world.state(person, "trade", dice.choice(PROFESSIONS))
        if dice.chance(0.75):
            world.state(person, "employer", dice.choice(companies))
        teacher = people[dice.below(number)] if number else None
        if teacher and born - _year(world, teacher, "birth year") >= 12:
            world.state(person, "teacher", teacher)


def _companies(world: World, dice: Dice) -> None:
    people, towns, companies = (world.of_kind(kind) for kind in ("person", "town", "company"))
    for number, company in enumerate(companies):
        founder = dice.choice(people)
        grown_up = _year(world, founder, "birth year") + _GROWN_UP
        world.state(company, "founder", founder)
        world.state(company, "founding", dice.pick(grown_up, min(grown_up + 30, _TODAY)))
        world.state(company, "seat", dice.choice(towns))
        if dice.chance(0.9):
            world.state(company, "product", dice.choice(PRODUCTS))
        if dice.chance(0.8):
            world.state(company, "director", _other(dice, people, founder))
        if number and dice.chance(0.4):
            world.state(company, "owner", companies[dice.below(number)])


def _works(world: World, dice: Dice) -> None:
    people, towns, companies = (world.of_kind(kind) for kind in ("person", "town", "company"))
    for work in world.of_kind("work"):
        author, publisher = dice.choice(people), dice.choice(companies)
        grown_up = _year(world, author, "birth year") + _GROWN_UP
        appeared = dice.pick(grown_up, min(grown_up + 40, _TODAY))
        world.state(work, "author", author)
        world.state(work, "appearance", appeared)
        if dice.chance(0.8):
            world.state(work, "setting", dice.choice(towns))
        if _year(world, publisher, "founding") <= appeared:
            world.state(work, "publisher", publisher)
        if dice.chance(0.6):
            world.state(work, "dedication", _other(dice, people, author))


def _year(world: World, subject: str, relation: str) -> int:
    value = world.facts[subject][relation]
    assert isinstance(value, int)
    return value


def _other(dice: Dice, people: Sequence[str], than: str) -> str:
    """Somebody else: who comes before or after, where chance has the same person."""
    chosen = dice.below(len(people))
    return people[chosen] if people[chosen] != than else people[chosen - 1]
