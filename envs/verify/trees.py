"""Formulas as trees: tuples of what a part is, and its own parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Final

Tree = tuple[Any, ...]
"""("num", Fraction) | ("name", str) | ("const", str) | ("add" or "mul", trees) | ("pow", base, exponent) |
("root", degree, tree) | ("fn", name, tree) | ("log", base, tree) | ("binom", n, k) | ("fact", tree) | ("deg", tree)"""

FUNCTIONS: Final = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "asin": "asin", "acos": "acos",
    "atan": "atan", "ln": "ln", "exp": "exp", "abs": "abs", "floor": "floor", "ceil": "ceil",
}  # fmt: skip
"""Names of functions as they are written, and in trees."""
CONSTANTS: Final = {"pi": "pi", "infty": "oo", "infinity": "oo", "inf": "oo", "e": "e", "i": "i"}
"""Names of constants as they are written, and in trees."""
_GREEK: Final = """
alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi
omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega ell"""
GREEK: Final = frozenset(_GREEK.split())
"""Letters that are spelled out."""
MINUS_ONE: Final[Tree] = ("num", Fraction(-1))


def number(value: int | Fraction) -> Tree:
    """The tree of a number."""
    return ("num", Fraction(value))


def total(parts: Sequence[Tree]) -> Tree:
    """The tree of a sum."""
    return parts[0] if len(parts) == 1 else ("add", tuple(parts))


def product(parts: Sequence[Tree]) -> Tree:
    """The tree of a product."""
    return parts[0] if len(parts) == 1 else ("mul", tuple(parts))


def negative(tree: Tree) -> Tree:
    """The tree of −x."""
    return number(-tree[1]) if tree[0] == "num" else ("mul", (MINUS_ONE, tree))


def inverse(tree: Tree) -> Tree:
    """The tree of 1/x."""
    return ("pow", tree, MINUS_ONE)


def difference(a: Tree, b: Tree) -> Tree:
    """The tree of a − b."""
    return ("add", (a, negative(b)))


def parts_of(tree: Tree) -> Iterator[Tree]:
    """The parts of a tree that are trees."""
    for part in tree[1:]:
        if isinstance(part, tuple):
            if part and isinstance(part[0], tuple):
                yield from part
            else:
                yield part


def names_in(tree: Tree) -> frozenset[str]:
    """The names of a tree: what is neither number nor constant."""
    if tree[0] == "name":
        return frozenset((tree[1],))
    return frozenset().union(*map(names_in, parts_of(tree)))


def holds(tree: Tree, constant: str) -> bool:
    """Whether a constant occurs in a tree."""
    return tree == ("const", constant) or any(holds(part, constant) for part in parts_of(tree))
