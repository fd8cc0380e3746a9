"""What can be said in the world of `Search`: kinds of things, relations between them, and the words for both.

A fact is stated once, in the document of its subject, by one of its relation's sentences. Sentences can be read back
(`Relation.read`), which is how the expert learns from documents and how tests know that a text says what it should.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

Value = str | int
"""What a fact says of its subject: the name of a thing, a word, or a number."""


@dataclass(frozen=True)
class Comparison:
    """How a relation with a number compares things."""

    least: str
    """Asks for the thing with the least number among {x}."""
    greatest: str
    """Asks for the one with the greatest."""
    apart: str | None = None
    """Asks how far the numbers of {a} and {b} lie apart; None where that is no natural question."""


@dataclass(frozen=True)
class Relation:
    """One thing that documents say of their subjects. At most one value for a subject."""

    name: str
    subject: str
    """Kind of its subjects."""
    object: str
    """Kind of its values: that of a thing, or "year", "count", "word"."""
    says: tuple[str, ...]
    """Sentences, of {s} and {o}."""
    forward: str
    """Words for the value, given words {x} for the subject."""
    ask: str
    """Asks for the value."""
    backward: str | None = None
    """Words for the subject, given words {x} for the value; None where they would be unnatural."""
    comparison: Comparison | None = None

    @property
    def is_number(self) -> bool:
        """True if its values are numbers."""
        return self.object in ("year", "count")

    @property
    def is_thing(self) -> bool:
        """True if its values have documents of their own."""
        return self.object not in ("year", "count", "word")

    def sentence(self, template: str, subject: str, value: Value) -> str:
        """A fact in words."""
        return template.format(s=subject, o=f"{value:,}" if self.object == "count" else value)

    def read(self, sentence: str) -> Value | None:
        """The value that a sentence states; None if it states nothing of this sort."""
        for pattern in self._patterns:
            if match := pattern.fullmatch(sentence):
                return int(match[1].replace(",", "")) if self.is_number else match[1]
        return None

    @cached_property
    def _patterns(self) -> tuple[re.Pattern[str], ...]:
        value = "([0-9,]+)" if self.is_number else "([^0-9,;]+)"
        return tuple(
            re.compile(re.escape(t).replace(r"\{s\}", ".+?").replace(r"\{o\}", value)) for t in self.says
        )


_RELATIONS: Final = (
    # People.
    Relation(
        "birthplace", "person", "town", ("{s} was born in {o}.", "{s} comes from {o} by birth."),
        "the birthplace of {x}", "What is the birthplace of {x}?",
    ),
    Relation(
        "birth year", "person", "year", ("{s} was born in the year {o}.", "The year of birth is given as {o}."),
        "the birth year of {x}", "What is the birth year of {x}?",
        comparison=Comparison(
            "Who was born first: {x}?", "Who was born last: {x}?",
            "How many years lie between the births of {a} and {b}?",
        ),
    ),
    Relation(
        "home", "person", "town", ("{s} now lives in {o}.", "{s} has a house in {o} and lives there today."),
        "the present home town of {x}", "What is the present home town of {x}?",
    ),
    Relation(
        "trade", "person", "word", ("{s} is a {o} by trade.", "{s} was trained as a {o}."),
        "the trade of {x}", "What is the trade of {x}?",
    ),
    Relation(
        "teacher", "person", "person", ("{s} was taught by {o}.", "{s} learned the trade from {o}."),
        "the teacher of {x}", "Who taught {x}?", "the person taught by {x}",
    ),
    Relation(
        "employer", "person", "company", ("{s} is employed by {o}.", "{s} earns a living at {o}."),
        "the employer of {x}", "Which company employs {x}?", "the person employed by {x}",
    ),
    # Companies.
    Relation(
        "founder", "company", "person", ("{s} was founded by {o}.", "{s} owes its existence to its founder {o}."),
        "the founder of {x}", "Who founded {x}?", "the company founded by {x}",
    ),
    Relation(
        "founding", "company", "year", ("{s} was founded in the year {o}.", "{s} has been in business since {o}."),
        "the founding year of {x}", "What is the founding year of {x}?",
        comparison=Comparison(
            "Which company is the oldest: {x}?", "Which company is the youngest: {x}?",
            "How many years lie between the foundings of {a} and {b}?",
        ),
    ),
    Relation(
        "seat", "company", "town", ("{s} has its seat in {o}.", "{s} is run from an office in {o}."),
        "the seat of {x}", "Which town is the seat of {x}?", "the company that has its seat in {x}",
    ),
    Relation(
        "director", "company", "person", ("{s} is directed by {o}.", "The present director is {o}."),
        "the director of {x}", "Who directs {x}?", "the company directed by {x}",
    ),
    Relation(
        "product", "company", "word", ("{s} makes {o}.", "{s} is known for its {o}."),
        "the product of {x}", "What is the product of {x}?",
    ),
    Relation(
        "owner", "company", "company", ("{s} belongs to {o}.", "All shares are held by {o}."),
        "the owner of {x}", "Which company owns {x}?", "the company owned by {x}",
    ),
    # Works.
    Relation(
        "author", "work", "person", ("{s} is by {o}.", "{s} was created by {o}."),
        "the author of {x}", "Who is the author of {x}?", "the work created by {x}",
    ),
    Relation(
        "appearance", "work", "year", ("{s} first appeared in {o}.", "The public came to know it in {o}."),
        "the year of the first appearance of {x}", "What is the year of the first appearance of {x}?",
        comparison=Comparison(
            "Which work appeared first: {x}?", "Which work appeared last: {x}?",
            "How many years lie between the first appearances of {a} and {b}?",
        ),
    ),
    Relation(
        "setting", "work", "town", ("{s} is set in {o}.", "Its story takes place in {o}."),
        "the setting of {x}", "Which town is the setting of {x}?", "the work set in {x}",
    ),
    Relation(
        "publisher", "work", "company", ("{s} was brought out by {o}.", "The rights are with {o}."),
        "the publisher of {x}", "Which company is the publisher of {x}?", "the work published by {x}",
    ),
    Relation(
        "dedication", "work", "person", ("{s} is dedicated to {o}.", "A line on the first page gives it to {o}."),
        "the person named in the dedication of {x}", "Who is named in the dedication of {x}?",
        "the work dedicated to {x}",
    ),
    # Towns.
    Relation(
        "region", "town", "region", ("{s} lies in {o}.", "{s} is a town of {o}."),
        "the region of {x}", "What is the region of {x}?",
    ),
    Relation(
        "shore", "town", "lake", ("{s} stands on the shore of {o}.", "From the market one sees {o}."),
        "the lake next to {x}", "Which lake is next to {x}?", "the town next to {x}",
    ),
    Relation(
        "charter", "town", "year", ("{s} received its charter in {o}.", "A charter was granted in {o}."),
        "the year of the charter of {x}", "What is the year of the charter of {x}?",
        comparison=Comparison(
            "Which town received its charter first: {x}?", "Which town received its charter last: {x}?",
            "How many years lie between the charters of {a} and {b}?",
        ),
    ),
    Relation(
        "population", "town", "count", ("{s} has {o} inhabitants.", "At the last count, {o} people lived here."),
        "the population of {x}", "What is the population of {x}?",
        comparison=Comparison(
            "Which town has the fewest inhabitants: {x}?", "Which town has the most inhabitants: {x}?"
        ),
    ),
    Relation(
        "mayor", "town", "person", ("The mayor of the town is {o}.", "{s} elected {o} as its mayor."),
        "the mayor of {x}", "Who is the mayor of {x}?", "the town whose mayor is {x}",
    ),
    # Regions and lakes. No way leads from a capital to its region: the town's own document names that, too.
    Relation(
        "capital", "region", "town", ("The capital is {o}.", "{s} is governed from {o}."),
        "the capital of {x}", "What is the capital of {x}?",
    ),
    Relation(
        "area", "region", "count", ("{s} covers {o} square kilometres.", "The land measures {o} square kilometres."),
        "the area, in square kilometres, of {x}", "What is the area, in square kilometres, of {x}?",
        comparison=Comparison("Which region is the smallest: {x}?", "Which region is the largest: {x}?"),
    ),
    Relation(
        "depth", "lake", "count", ("{s} is {o} metres deep.", "Divers reach the bottom at {o} metres."),
        "the depth, in metres, of {x}", "What is the depth, in metres, of {x}?",
        comparison=Comparison("Which lake is the shallowest: {x}?", "Which lake is the deepest: {x}?"),
    ),
    Relation(
        "surveyor", "lake", "person", ("{s} was first surveyed by {o}.", "The first map of it was drawn by {o}."),
        "the surveyor of {x}", "Who first surveyed {x}?", "the lake first surveyed by {x}",
    ),
)  # fmt: skip

RELATIONS: Final[Mapping[str, Relation]] = {relation.name: relation for relation in _RELATIONS}
"""All relations, by name."""


def relations_of(kind: str) -> tuple[Relation, ...]:
    """The relations whose subjects are of a kind."""
    return tuple(relation for relation in _RELATIONS if relation.subject == kind)
