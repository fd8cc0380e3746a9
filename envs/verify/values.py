"""What a formula is worth: exactly where it is a rational number, else in floating point with a bound of its error.

Both are cheap whatever the formula: numbers that would grow too large are given up, not worked out.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from turngym.envs.verify.trees import Tree, names_in

MOST_BITS: Final = 20_000
"""Of the numerator and the denominator of an exact value."""
_MOST_FACTORIAL: Final = 2_000
_EPSILON: Final = 2.0**-50


def exact(tree: Tree) -> Fraction | None:
    """The value of a formula that is a rational number by its arithmetic alone; None for any other, and for one that is
    undefined or too large."""
    try:
        value = _exact(tree)
    except (ZeroDivisionError, OverflowError):
        return None
    return value


def _exact(tree: Tree) -> Fraction | None:
    kind = tree[0]
    if kind == "num":
        value: Fraction = tree[1]
        return value
    if kind in ("add", "mul"):
        result = Fraction(int(kind == "mul"))
        for part in tree[1]:
            one = _exact(part)
            if one is None:
                return None
            result = result + one if kind == "add" else result * one
            if _bits(result) > MOST_BITS:
                return None
        return result
    if kind == "pow":
        return _power(tree[1], tree[2])
    if kind == "root":
        inner, degree = _exact(tree[2]), _exact(tree[1])
        return None if inner is None or degree is None else _root(inner, degree)
    if kind == "fact":
        inner = _exact(tree[1])
        if inner is None or inner.denominator != 1 or not 0 <= inner <= _MOST_FACTORIAL:
            return None
        return Fraction(math.factorial(int(inner)))
    if kind == "binom":
        n, k = _exact(tree[1]), _exact(tree[2])
        if n is None or k is None or n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n <= 10_000:
            return None
        return Fraction(math.comb(int(n), int(k)))
    if kind == "fn" and tree[1] in ("abs", "floor", "ceil"):
        inner = _exact(tree[2])
        if inner is None:
            return None
        return Fraction({"abs": abs, "floor": math.floor, "ceil": math.ceil}[tree[1]](inner))  # type: ignore[operator]
    return None


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _power(base_tree: Tree, exponent_tree: Tree) -> Fraction | None:
    exponent = _exact(exponent_tree)
    if exponent is None:
        return None
    base = _exact(base_tree)
    if base is None:
        return None
    if exponent.denominator != 1:
        root = _root(base, Fraction(exponent.denominator)) if base >= 0 else None
        if root is None:
            return None
        base, exponent = root, Fraction(exponent.numerator)
    if base in (0, 1):
        return None if base == 0 and exponent <= 0 else base
    if abs(exponent) * _bits(base) > MOST_BITS:
        return None
    return Fraction(base ** int(exponent))


def _root(value: Fraction, degree: Fraction) -> Fraction | None:
    """The root of a perfect power; the real one of a negative number where the degree is odd."""
    if degree.denominator != 1 or not 2 <= degree <= 100:
        return None
    n = int(degree)
    if value < 0:
        positive = _root(-value, degree) if n % 2 else None
        return None if positive is None else -positive
    above, below = _whole_root(value.numerator, n), _whole_root(value.denominator, n)
    return None if above is None or below is None else Fraction(above, below)


def _whole_root(value: int, n: int) -> int | None:
    if n == 2:
        root = math.isqrt(value)
    else:
        if value.bit_length() > 1000:
            return None
        root = round(value ** (1 / n)) if value.bit_length() < 900 else 0
    for one in (root - 1, root, root + 1):
        if one >= 0 and one**n == value:
            return one
    return None


Approximate = tuple[complex, float]
"""A value and a bound of its error."""


def approximate(tree: Tree, point: Mapping[str, float]) -> Approximate | None:
    """The value of a formula at a point, in floating point; None where it is not defined, or beyond floating point.

    Args:
        tree: the formula.
        point: a value for each of its names.
    """
    try:
        value, error = _approximate(tree, point)
    except (ZeroDivisionError, OverflowError, ValueError, KeyError):
        return None
    return (value, error) if cmath.isfinite(value) and math.isfinite(error) else None


def _approximate(tree: Tree, point: Mapping[str, float]) -> Approximate:
    kind = tree[0]
    if kind == "num":
        return _rounded(complex(float(tree[1])))
    if kind == "name":
        return complex(point[tree[1]]), 0.0
    if kind == "const":
        if tree[1] == "oo":
            raise OverflowError
        return _rounded({"pi": complex(math.pi), "e": complex(math.e), "i": 1j}[tree[1]])
    if kind == "add":
        return _sum([_approximate(part, point) for part in tree[1]])
    if kind == "mul":
        value, error = complex(1), 0.0
        for part in tree[1]:
            value, error = _times((value, error), _approximate(part, point))
        return value, error
    if kind == "pow":
        return _to_the(_approximate(tree[1], point), _approximate(tree[2], point))
    if kind == "root":
        return _rooted(_approximate(tree[1], point), _approximate(tree[2], point))
    if kind == "deg":
        return _times(_approximate(tree[1], point), _rounded(complex(math.pi / 180)))
    if kind == "log":
        above, below = (_function("ln", _approximate(tree[n], point)) for n in (2, 1))
        return _times(above, _reciprocal(below))
    if kind == "fn":
        return _function(tree[1], _approximate(tree[2], point))
    value, error = _approximate(tree[1], point)
    whole = round(value.real)
    if abs(value - whole) > 1e-9 + error or not 0 <= whole <= 170:
        raise ValueError("no whole number")
    if kind == "fact":
        return _rounded(complex(float(math.factorial(whole))))
    k = _approximate(tree[2], point)[0]
    if abs(k - round(k.real)) > 1e-9 or not 0 <= k.real <= whole + 0.5:
        raise ValueError("no whole number")
    return _rounded(complex(float(math.comb(whole, round(k.real)))))


def _rounded(value: complex) -> Approximate:
    return value, _EPSILON * abs(value)


def _sum(parts: list[Approximate]) -> Approximate:
    value = sum((one for one, _ in parts), complex(0))
    largest = max(abs(one) for one, _ in parts)
    return value, sum(error for _, error in parts) + _EPSILON * len(parts) * largest


def _times(a: Approximate, b: Approximate) -> Approximate:
    value = a[0] * b[0]
    return value, abs(a[0]) * b[1] + abs(b[0]) * a[1] + a[1] * b[1] + _EPSILON * abs(value)


def _reciprocal(a: Approximate) -> Approximate:
    value, error = a
    if abs(value) <= 2 * error:
        raise ZeroDivisionError
    return 1 / value, 2 * error / abs(value) ** 2 + _EPSILON / abs(value)


def _to_the(base: Approximate, exponent: Approximate) -> Approximate:
    (a, a_error), (b, b_error) = base, exponent
    if b == round(b.real) and b_error <= _EPSILON * abs(b):
        n = round(b.real)
        if n < 0:
            return _to_the(_reciprocal(base), (complex(-n), 0.0))
        value = a**n if n else complex(1)
        return value, n * abs(a) ** max(n - 1, 0) * a_error * 2 + _EPSILON * abs(value) * (n + 1)
    if abs(a) <= 2 * a_error:
        raise ValueError("near the singularity of a power")
    value = cmath.exp(b * cmath.log(a))
    relative = abs(b) * a_error / abs(a) * 2 + abs(cmath.log(a)) * b_error + _EPSILON * (4 + abs(b) * 8)
    if a.real < 0 and abs(a.imag) <= a_error:
        raise ValueError("on the cut of a power")
    return value, relative * abs(value)


def _rooted(degree: Approximate, inner: Approximate) -> Approximate:
    n = round(degree[0].real)
    value, error = inner
    if value.real < 0 and value.imag == 0 and n % 2:
        root, bound = _to_the((-value, error), (complex(1 / n), _EPSILON))
        return -root, bound
    if value.real < 0 and value.imag == 0 and n == 2:
        root, bound = _to_the((-value, error), (complex(0.5), 0.0))
        return root * 1j, bound
    if value == 0 and error == 0:
        return value, error
    return _to_the(inner, (complex(1 / n), _EPSILON))


def _function(name: str, inner: Approximate) -> Approximate:
    value, error = inner
    if name == "abs":
        return complex(abs(value)), error
    if name in ("floor", "ceil"):
        if abs(value.real - round(value.real)) <= error and error:
            raise ValueError("near a jump")
        return complex(math.floor(value.real) if name == "floor" else math.ceil(value.real)), 0.0
    if name in ("cot", "sec", "csc"):
        below = {"cot": "tan", "sec": "cos", "csc": "sin"}[name]
        return _reciprocal(_function(below, inner))
    function = _FUNCTIONS[name]
    result = function(value)
    # The slope near the value, from a small step: no bound in the strict sense, and safe by a factor of eight.
    step = max(error, abs(value) * 1e-8, 1e-12)
    slope = max(abs(function(value + step) - result), abs(function(value - step) - result)) / step
    return result, 8 * slope * error + _EPSILON * (abs(result) + 8 * slope * abs(value))


_FUNCTIONS: Final = {
    "sin": cmath.sin, "cos": cmath.cos, "tan": cmath.tan, "sinh": cmath.sinh, "cosh": cmath.cosh, "tanh": cmath.tanh,
    "asin": cmath.asin, "acos": cmath.acos, "atan": cmath.atan, "ln": cmath.log, "exp": cmath.exp,
}  # fmt: skip


def points(*trees: Tree) -> list[dict[str, float]]:
    """Where formulas are compared: the same places every time; one empty point for formulas without names."""
    names = sorted(frozenset().union(*(names_in(tree) for tree in trees)))
    if not names:
        return [{}]
    return [
        {name: _coordinate(row, column) for column, name in enumerate(names)} for row in range(len(_SCALES))
    ]


_SCALES: Final = (1.0, -1.0, 3.0, -3.0, 0.3, -0.3, 20.0, -20.0, 400.0, -400.0, *6 * (0.0,))
"""Sizes of the coordinates; a row of zeros stands for small whole numbers."""


def _coordinate(row: int, column: int) -> float:
    """Irrational-looking numbers of the row's size (multiples of the golden ratio, modulo 1), or whole ones."""
    if _SCALES[row] == 0.0:
        return float(2 + (3 * row + 5 * column) % 11 + column % 5)
    share = math.modf((7 * row + 13 * column + 1) * 0.6180339887498949)[0]
    sign = -1.0 if column % 2 and row % 4 > 1 else 1.0
    return _SCALES[row] * sign * (0.5 + share)
