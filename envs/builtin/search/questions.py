"""Questions over a world: chains of facts that stand in one document each, and comparisons of what chains lead to.

A *hop* reads one document. It starts at something known and ends at a value of that document:

    forward            the document of the thing itself:     Ker Stingel → the town where he was born
    backward           the one that names the thing:         Ker Stingel → the company founded by him
    backward, forward  the same, and a fact from it:         Ker Stingel → the seat of the company founded by him

Each hop of a question needs another document, and every fact stands in one document only, so the documents of its hops
are necessary, and enough. A hop backwards is used only where exactly one thing fits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.schema import RELATIONS, Value
from turngym.envs.builtin.search.world import World

Kind = Literal["bridge", "comparison"]
KINDS: Final[tuple[Kind, ...]] = ("bridge", "comparison")
Form = Literal["value", "least", "greatest", "apart"]
MOST_HOPS: Final = 4
_MOST_TRIES: Final = 2000
# For each number of hops, the shapes (branches, hops of each) of a comparison.
_SHAPES: Final[Mapping[int, tuple[tuple[int, int], ...]]] = {2: ((2, 1),), 3: ((3, 1),), 4: ((2, 2), (4, 1))}


@dataclass(frozen=True, slots=True)
class Hop:
    """How to get from something known to a value, by one document."""

    backward: str | None
    """Relation in which the document's subject stands to the known thing; None: the document is about that thing."""
    forward: str | None
    """Relation whose value is wanted; None: the document's subject is."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A known thing, and hops from it."""

    start: str
    """Name of the known thing."""
    hops: tuple[Hop, ...]
    """What to do from there."""


@dataclass(frozen=True, slots=True)
class Query:
    """A question without its words."""

    form: Form
    """"value" asks for the end of its only branch. The others compare the numbers at the ends of several: "least" and
    "greatest" ask for the thing that the number belongs to, "apart" for the difference."""
    branches: tuple[Branch, ...]
    """What is followed."""

    @property
    def hops(self) -> int:
        """Number of documents that are needed."""
        return sum(len(branch.hops) for branch in self.branches)

    def data(self) -> dict[str, Any]:
        """As JSON data."""
        branches = [
            {"start": branch.start, "hops": [[hop.backward, hop.forward] for hop in branch.hops]}
            for branch in self.branches
        ]
        return {"form": self.form, "branches": branches}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Query:
        """Back from JSON data."""
        branches = [Branch(b["start"], tuple(Hop(*hop) for hop in b["hops"])) for b in data["branches"]]
        return cls(data["form"], tuple(branches))


@dataclass(frozen=True, slots=True)
class Move:
    """A hop from a given thing: where it leads, and by whose document."""

    hop: Hop
    about: str
    """The thing that the document is about."""
    value: Value
    """Where it ends."""


@dataclass(frozen=True, slots=True)
class Question:
    """A query with its words and its answer."""

    query: Query
    text: str
    """The words."""
    answer: Value
    """A name or a number."""
    evidence: tuple[str, ...]
    """The things whose documents are needed, in the order of the hops."""

    @property
    def kind(self) -> Kind:
        """Whether it follows one chain or compares several."""
        return "bridge" if self.query.form == "value" else "comparison"


class Asker:
    """Makes questions about a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.moves = lru_cache(maxsize=None)(self._moves)
        """All hops from a thing."""
        self._names = tuple(world.kinds)
        numbers = [r.name for r in RELATIONS.values() if r.comparison is not None]
        self._comparable = {
            name: [thing for thing in self._names if name in world.facts[thing]] for name in numbers
        }

    def ask(self, dice: Dice, kind: Kind, hops: int) -> Question:
        """A random question that needs `hops` documents.

        Raises:
            RuntimeError: the world is too small for such a question.
        """
        for _ in range(_MOST_TRIES):
            question = self._bridge(dice, hops) if kind == "bridge" else self._comparison(dice, hops)
            if question is not None:
                return question
        raise RuntimeError(f"this world has no {kind} question of {hops} hops: make it larger")

    def _bridge(self, dice: Dice, hops: int) -> Question | None:
        start = dice.choice(self._names)
        moves = self._walk(dice, start, hops, {start})
        if moves is None:
            return None
        query = Query("value", (Branch(start, tuple(move.hop for move in moves)),))
        return Question(query, in_words(query), moves[-1].value, tuple(move.about for move in moves))

    def _comparison(self, dice: Dice, hops: int) -> Question | None:
        count, length = dice.choice(_SHAPES[hops])
        relation = RELATIONS[dice.choice(tuple(self._comparable))]
        assert relation.comparison is not None
        seen: set[str] = set()
        drawn: list[tuple[Branch, list[str]]] = []
        numbers: dict[str, int] = {}
        for _ in range(count):
            start = dice.choice(self._comparable[relation.name] if length == 1 else self._names)
            moves = None if start in seen else self._walk(dice, start, length - 1, seen | {start})
            if moves is None:
                return None
            thing = moves[-1].value if moves else start
            number = self.world.facts.get(str(thing), {}).get(relation.name)
            if not isinstance(number, int) or thing in seen or number in numbers.values():
                return None
            about = [move.about for move in moves] + [str(thing)]
            seen.update(about, (start, str(thing)))
            hops_of_it = (*(move.hop for move in moves), Hop(None, relation.name))
            drawn.append((Branch(start, hops_of_it), about))
            numbers[str(thing)] = number
        # One order for each set of branches: the same question in another order would be another task.
        drawn.sort(key=lambda pair: _number_of(repr(pair[0])))
        evidence = [name for _, about in drawn for name in about]
        if len(set(evidence)) < len(evidence):
            return None
        forms: list[Form] = ["least", "greatest"]
        if count == 2 and relation.comparison.apart:
            forms.append("apart")
        query = Query(dice.choice(forms), tuple(branch for branch, _ in drawn))
        return Question(query, in_words(query), compared(query.form, numbers), tuple(evidence))

    def _walk(self, dice: Dice, start: str, hops: int, seen: set[str]) -> list[Move] | None:
        """Random hops from a thing, all by different documents and to things not seen before; None at a dead end."""
        seen, here, walked = set(seen), start, list[Move]()
        used: set[str] = set()
        for left in range(hops - 1, -1, -1):
            fitting = [
                move
                for move in self.moves(here)
                if move.value not in seen
                and move.about not in used
                and (move.about == here or move.about not in seen)
                and (left == 0 or move.value in self.world.kinds)
            ]
            if not fitting:
                return None
            move = self._chosen(dice, fitting)
            walked.append(move)
            used.add(move.about)
            seen.update((move.about, str(move.value)))
            here = str(move.value)
        return walked

    def _chosen(self, dice: Dice, moves: Sequence[Move]) -> Move:
        """A move, all of a sort alike: there are many more of the sort that goes backward and forward."""
        sorts = sorted({(move.hop.backward is None, move.hop.forward is None) for move in moves})
        sort = dice.choice(sorts)
        return dice.choice([m for m in moves if (m.hop.backward is None, m.hop.forward is None) == sort])

    def _moves(self, thing: str) -> list[Move]:
        return list(_moves_from(self.world, thing))


def _moves_from(world: World, thing: str) -> Iterator[Move]:
    for name, value in world.facts[thing].items():
        yield Move(Hop(None, name), thing, value)
    for relation in RELATIONS.values():
        subjects = world.subjects.get((relation.name, thing), ())
        if relation.backward is None or len(subjects) != 1:
            continue
        (subject,) = subjects
        yield Move(Hop(relation.name, None), subject, subject)
        for other, value in world.facts[subject].items():
            if value not in (thing, subject):
                yield Move(Hop(relation.name, other), subject, value)


def compared(form: Form, numbers: Mapping[str, int]) -> Value:
    """The answer to a comparison of things by their numbers."""
    if form == "apart":
        first, second = numbers.values()
        return abs(first - second)
    return (min if form == "least" else max)(numbers, key=lambda thing: numbers[thing])


def in_words(query: Query) -> str:
    """The question, always in the same words."""
    if query.form == "value":
        (branch,) = query.branches
        *before, last = branch.hops
        words = _followed(branch.start, before)
        if last.backward is not None:
            words = _followed(words, [Hop(last.backward, None)])
        return (
            RELATIONS[last.forward].ask.format(x=words) if last.forward else f"What is the name of {words}?"
        )
    comparison = RELATIONS[str(query.branches[0].hops[-1].forward)].comparison
    assert comparison is not None
    things = [_followed(branch.start, branch.hops[:-1]) for branch in query.branches]
    if query.form == "apart":
        return str(comparison.apart).format(a=things[0], b=things[1])
    asks = comparison.least if query.form == "least" else comparison.greatest
    return asks.format(x=f"{', '.join(things[:-1])} or {things[-1]}")


def _followed(words: str, hops: Sequence[Hop]) -> str:
    for hop in hops:
        if hop.backward is not None:
            words = str(RELATIONS[hop.backward].backward).format(x=words)
        if hop.forward is not None:
            words = RELATIONS[hop.forward].forward.format(x=words)
    return words


def _number_of(text: str) -> int:
    return zlib.crc32(text.encode())
