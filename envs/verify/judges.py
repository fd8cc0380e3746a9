"""Who compares formulas: a `Judge`. The quick one here knows exact arithmetic, and tells most different formulas apart.

What it cannot tell is None, and then an answer made of such parts is None too, unless another part decides it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from turngym.envs.verify.trees import Tree, holds
from turngym.envs.verify.values import approximate, exact, points

Known = bool | None
"""True, False, or None: it cannot be told."""


class Judge(Protocol):
    """Compares formulas."""

    def same(self, a: Tree, b: Tree) -> Known:
        """Whether two formulas have the same value, for all values of their names."""
        ...

    def multiple(self, a: Tree, b: Tree) -> int | None:
        """Whether a is b times a number: the number's sign, 0 if it is not, None if that cannot be told."""
        ...


def every(parts: Iterable[Known]) -> Known:
    """Kleene's "and": False as soon as one part is."""
    result: Known = True
    for part in parts:
        if part is False:
            return False
        if part is None:
            result = None
    return result


def some(parts: Iterable[Known]) -> Known:
    """Kleene's "or": True as soon as one part is."""
    result: Known = False
    for part in parts:
        if part:
            return True
        if part is None:
            result = None
    return result


class Quick:
    """Exact arithmetic, and floating point where it is sure that two values differ."""

    def same(self, a: Tree, b: Tree) -> Known:
        """True for equal rational numbers and equal trees, False where the values surely differ."""
        if a == b:
            return True
        one, other = exact(a), exact(b)
        if one is not None and other is not None:
            return one == other
        return False if differ(a, b) else None

    def multiple(self, a: Tree, b: Tree) -> int | None:
        """1 for equal trees, else unknown."""
        return 1 if a == b else None


def differ(a: Tree, b: Tree) -> bool:
    """Whether two formulas surely have different values somewhere where both are real (or both have an i)."""
    if holds(a, "oo") or holds(b, "oo"):
        return True
    for point in points(a, b):
        one, other = approximate(a, point), approximate(b, point)
        if one is None or other is None:
            continue
        (x, x_error), (y, y_error) = one, other
        if point and (abs(x.imag) > x_error or abs(y.imag) > y_error):
            continue  # outside of where one of them is real
        if abs(x - y) > 16 * (x_error + y_error) + 1e-10 * max(abs(x), abs(y)):
            return True
    return False
