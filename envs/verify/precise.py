"""Formulas compared to as many digits as it takes: at one point where they have no names, else at many.

Two formulas of a few hundred characters that agree in fifty digits more than their greatest and least parts have are
equal. There is no rewriting of formulas here, and so nothing that could go on for ever. Runs in a worker process.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import mpmath
from mpmath import mp

from turngym.envs.verify.errors import TooLarge
from turngym.envs.verify.judges import Known
from turngym.envs.verify.trees import Tree, holds, names_in
from turngym.envs.verify.values import exact, points

MOST_DIGITS: Final = 3_000
"""Numbers of more digits, before or behind the point, are not worked out."""
_DIGITS: Final = 50
_AGREEING: Final = 3
"""Points at which formulas with names must agree."""


class Precise:
    """A judge that always knows: what it cannot work out is not the same."""

    def same(self, a: Tree, b: Tree) -> Known:
        """Whether two formulas have the same value wherever both are real (or complex, if they have an i)."""
        if a == b:
            return True
        one, other = exact(a), exact(b)
        if one is not None and other is not None:
            return one == other
        is_constant = not names_in(a) and not names_in(b)
        agreeing = 0
        for point in points(a, b):
            verdict = _agree(a, b, point, is_real=not is_constant and not (holds(a, "i") or holds(b, "i")))
            if verdict is False:
                return False
            agreeing += verdict is True
        return agreeing >= (1 if is_constant else _AGREEING)

    def multiple(self, a: Tree, b: Tree) -> int | None:
        """The sign of a/b where that is the same number at every point; else 0."""
        ratio = None
        agreeing = 0
        for point in points(a, b):
            try:
                pair = _values(a, b, point)
            except TooLarge:
                continue
            if pair is None:
                continue
            x, y, digits = pair
            with mp.workdps(digits):
                smallest = mp.mpf(10) ** (-(digits - _DIGITS) // 2 - _DIGITS // 2)
                if max(abs(x), abs(y)) < smallest:
                    continue
                if min(abs(x), abs(y)) < smallest or abs(mp.im(x / y)) > 1e-20:
                    return 0
                if ratio is None:
                    ratio = mp.re(x / y)
                elif abs(x / y / ratio - 1) > mp.mpf(10) ** (-_DIGITS // 2):
                    return 0
            agreeing += 1
        if ratio is None or agreeing < _AGREEING:
            return 0
        return 1 if ratio > 0 else -1


def _agree(a: Tree, b: Tree, point: Mapping[str, float], *, is_real: bool) -> Known:
    """Whether they have the same value at a point; None if one of them has none there."""
    try:
        pair = _values(a, b, point)
    except TooLarge:
        return None
    if pair is None:
        return None if point else False
    x, y, digits = pair
    with mp.workdps(digits):
        if is_real and max(abs(mp.im(x)), abs(mp.im(y))) > mp.mpf(10) ** (-_DIGITS // 2):
            return None
        # Of the digits, half (beyond the first fifty) are before the point at most.
        return bool(abs(x - y) <= mp.mpf(10) ** (-(digits - _DIGITS) // 2 - _DIGITS // 2))


def _values(a: Tree, b: Tree, point: Mapping[str, float]) -> tuple[Any, Any, int] | None:
    """Both values at a point, and to how many digits; None where one is undefined."""
    digits = _DIGITS
    while True:  # the first time to see how many digits it takes
        with mp.workdps(digits):
            evaluator = _Evaluator(point)
            try:
                x, y = evaluator.value(a), evaluator.value(b)
            except (ZeroDivisionError, ValueError):
                return None
        needed = _DIGITS + 2 * evaluator.magnitude
        if digits > _DIGITS or needed <= digits:
            return x, y, digits
        digits = needed


class _Evaluator:
    """Values at one point, at mpmath's current precision."""

    def __init__(self, point: Mapping[str, float]) -> None:
        self.point = point
        self.magnitude = 0
        """The most digits before or behind the point that a part had."""

    def value(self, tree: Tree) -> Any:
        result = self._value(tree)
        if not mpmath.isfinite(result):
            raise ValueError("not finite")
        if result != 0:
            size = int(abs(mpmath.mag(result)) * 0.30103) + 1
            if size > MOST_DIGITS:
                raise TooLarge
            self.magnitude = max(self.magnitude, size)
        return result

    def _value(self, tree: Tree) -> Any:
        kind = tree[0]
        if kind == "num":
            fraction: Fraction = tree[1]
            return mp.mpf(fraction.numerator) / fraction.denominator
        if kind == "name":
            return mp.mpf(self.point[tree[1]])
        if kind == "const":
            if tree[1] == "oo":
                raise ValueError("infinite")
            return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1)}[tree[1]]
        if kind == "add":
            return mp.fsum(map(self.value, tree[1]))
        if kind == "mul":
            return mp.fprod(map(self.value, tree[1]))
        if kind == "pow":
            return self._power(self.value(tree[1]), self.value(tree[2]))
        if kind == "root":
            return self._root(self.value(tree[2]), self.value(tree[1]))
        if kind == "deg":
            return self.value(tree[1]) * mp.pi / 180
        if kind == "log":
            return mp.log(self.value(tree[2])) / mp.log(self.value(tree[1]))
        if kind == "fn":
            return self._function(tree[1], self.value(tree[2]))
        if kind == "fact":
            return mp.factorial(_whole(self.value(tree[1])))
        return mp.binomial(_whole(self.value(tree[1])), _whole(self.value(tree[2])))

    def _power(self, base: Any, exponent: Any) -> Any:
        if base == 0:
            if mp.re(exponent) <= 0:
                raise ZeroDivisionError
            return mp.mpf(0)
        if abs(exponent) * max(abs(mpmath.mag(base)), 1) * 0.302 > MOST_DIGITS:
            raise TooLarge
        return mp.power(base, exponent)

    def _root(self, value: Any, degree: Any) -> Any:
        n = _whole(degree)
        if n < 2:
            raise ValueError("no degree of a root")
        if mp.im(value) == 0 and mp.re(value) < 0 and n % 2:
            return -mp.root(-value, n)
        return mp.root(value, n)

    def _function(self, name: str, value: Any) -> Any:
        if name in ("exp", "sinh", "cosh") and abs(value) > MOST_DIGITS:
            raise TooLarge
        if name == "abs":
            return abs(value)
        if name in ("floor", "ceil"):
            return (mp.floor if name == "floor" else mp.ceil)(mp.re(value))
        return getattr(mp, name)(value)


def _whole(value: Any) -> int:
    whole = int(mp.nint(mp.re(value)))
    if abs(value - whole) > 1e-20:
        raise ValueError("no whole number")
    if not 0 <= whole <= 2_000:
        raise TooLarge
    return whole
