"""What an answer is: a number with its unit, a set, a tuple, an interval, an equation, a word; nested where need be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turngym.envs.verify.trees import Tree, number
from turngym.envs.verify.units import Unit


@dataclass(frozen=True, slots=True)
class Quantity:
    """A formula, perhaps with a percent sign or a unit."""

    tree: Tree
    is_percent: bool = False
    unit: Unit | None = None
    letters: str = ""
    """Its spelling, where that is letters alone: it may have been meant as a word."""


@dataclass(frozen=True, slots=True)
class Words:
    """A text."""

    text: str
    """In lower case, with single spaces; a single letter keeps its case."""


@dataclass(frozen=True, slots=True)
class Several:
    """Answers in a row: 1, 2 and 3. A set without its braces, or a tuple without its parentheses."""

    items: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class SetOf:
    """A finite set."""

    items: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Items in round or square brackets: a tuple, or an interval."""

    opening: str
    """( or [."""
    items: tuple[Answer, ...]
    closing: str
    """) or ]."""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval of real numbers."""

    low: Tree
    high: Tree
    has_low: bool
    """True: the low end belongs to it."""
    has_high: bool
    """True: the high end belongs to it."""


@dataclass(frozen=True, slots=True)
class Region:
    """A union of intervals, perhaps said of a variable."""

    spans: tuple[Span, ...]
    name: str | None = None
    """The variable, where the answer names one."""


@dataclass(frozen=True, slots=True)
class Named:
    """name = value."""

    name: str
    value: Answer


@dataclass(frozen=True, slots=True)
class Equals:
    """Sides without names that are said to be equal: 6·7 = 42."""

    sides: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Relation:
    """Formulas in relation to each other: an equation, an inequality, a chain of them."""

    sides: tuple[Tree, ...]
    operators: tuple[str, ...]
    """One of = < > ≤ ≥ ≠ between every two sides."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of formulas."""

    rows: tuple[tuple[Answer, ...], ...]
    kind: str
    """"matrix" or "vmatrix" (a determinant)."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """a : b, or more of them."""

    items: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Based:
    """Digits in another base."""

    digits: str
    base: int


@dataclass(frozen=True, slots=True)
class Spelling:
    """A text with words and signs that is no formula, compared sign by sign."""

    tokens: tuple[str, ...]


Answer = (
    Quantity | Words | Several | SetOf | Group | Span | Region | Named | Equals | Relation | Matrix | Ratio | Based
    | Spelling
)  # fmt: skip

INFINITE: Final[Tree] = ("const", "oo")
MINUS_INFINITE: Final[Tree] = ("mul", (number(-1), INFINITE))
REALS: Final = Region((Span(MINUS_INFINITE, INFINITE, False, False),))
