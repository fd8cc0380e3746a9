"""Sets of real numbers as unions of intervals: from brackets, from inequalities, and canonical for comparing."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

from turngym.envs.verify.answers import (
    INFINITE,
    MINUS_INFINITE,
    Answer,
    Group,
    Quantity,
    Region,
    Relation,
    SetOf,
    Span,
)
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.trees import Tree, names_in
from turngym.envs.verify.values import approximate, exact

_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠", "=": "="}


def place_of(tree: Tree) -> float | None:
    """Where on the real line a formula without names is, roughly; None if nowhere."""
    if tree == INFINITE:
        return math.inf
    if tree == MINUS_INFINITE:
        return -math.inf
    found = None if names_in(tree) else approximate(tree, {})
    return None if found is None or abs(found[0].imag) > found[1] else found[0].real


def region_of(answer: Answer) -> Region | None:
    """An answer as a set of real numbers: two ends in brackets that are an interval, or points; else None."""
    if isinstance(answer, Region):
        return answer
    if isinstance(answer, Group) and len(answer.items) == 2:
        low, high = answer.items
        if not (_is_plain(low) and _is_plain(high)):
            return None
        assert isinstance(low, Quantity)
        assert isinstance(high, Quantity)
        span = Span(low.tree, high.tree, answer.opening == "[", answer.closing == "]")
        return Region((span,)) if _is_proper(span) else None
    if isinstance(answer, SetOf) and answer.items and all(_is_plain(item) for item in answer.items):
        trees = [item.tree for item in answer.items if isinstance(item, Quantity)]
        return Region(tuple(Span(tree, tree, True, True) for tree in trees))
    return None


def _is_plain(answer: Answer) -> bool:
    return isinstance(answer, Quantity) and answer.unit is None and not answer.is_percent


def _is_proper(span: Span) -> bool:
    """Whether it can be an interval: low before high, infinite ends open. What cannot be told is taken for one."""
    if span.low == INFINITE or span.high == MINUS_INFINITE:
        return False
    if (span.low == MINUS_INFINITE and span.has_low) or (span.high == INFINITE and span.has_high):
        return False
    order = _order(span.low, span.high)
    return order is None or order < 0


def _order(a: Tree, b: Tree) -> int | None:
    """−1, 0 or 1 as a comes before b, is b, or comes after it; None if that cannot be told."""
    if a == b:
        return 0
    one, other = exact(a), exact(b)
    if one is not None and other is not None:
        return (one > other) - (one < other)
    x, y = place_of(a), place_of(b)
    if x is None or y is None or (math.isfinite(x) and math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12)):
        return None
    return (x > y) - (x < y)


def solved(relation: Relation) -> Region | None:
    """a < x ≤ b and the like as a region of x; None where no single variable stands alone."""
    sides, operators = relation.sides, relation.operators
    if len(sides) == 2:
        left, right = sides
        operator = operators[0]
        if left[0] != "name":
            left, right, operator = right, left, _FLIPPED[operator]
        if left[0] == "name" and not names_in(right):
            return Region(_half_line(operator, right), left[1])
        return None
    if len(sides) != 3 or sides[1][0] != "name" or names_in(sides[0]) or names_in(sides[2]):
        return None
    if set(operators) <= {"<", "≤"}:
        low, high = sides[0], sides[2]
        has_low, has_high = (operator == "≤" for operator in operators)
    elif set(operators) <= {">", "≥"}:
        low, high = sides[2], sides[0]
        has_high, has_low = (operator == "≥" for operator in operators)
    else:
        return None
    span = Span(low, high, has_low and low != MINUS_INFINITE, has_high and high != INFINITE)
    return Region((span,), sides[1][1]) if _is_proper(span) else None


def _half_line(operator: str, end: Tree) -> tuple[Span, ...]:
    below = Span(MINUS_INFINITE, end, False, operator == "≤")
    above = Span(end, INFINITE, operator == "≥", False)
    if operator == "≠":
        return (below, above)
    return (below,) if operator in "<≤" else (above,)


def united(regions: Sequence[Region], *, is_or: bool) -> Region:
    """Several regions as one: their union, or what they have in common ("and", or a comma, where that is not empty).

    Raises:
        Unreadable: they are said of different variables, or it cannot be told.
    """
    names = {region.name for region in regions}
    if len(names) > 1:
        raise Unreadable("conditions on several variables")
    name = names.pop()
    spans = [span for region in regions for span in region.spans]
    if not is_or and all(len(region.spans) == 1 for region in regions):
        common = functools.reduce(_common, spans)
        if _is_proper(common):
            return Region((common,), name)
    return Region(_canonical(spans), name)


def _common(a: Span, b: Span) -> Span:
    low, has_low = _outer(a.low, a.has_low, b.low, b.has_low, 1)
    high, has_high = _outer(a.high, a.has_high, b.high, b.has_high, -1)
    return Span(low, high, has_low, has_high)


def _outer(a: Tree, has_a: bool, b: Tree, has_b: bool, sign: int) -> tuple[Tree, bool]:
    order = _order(a, b)
    if order is None:
        raise Unreadable("the ends of intervals cannot be ordered")
    if order == 0:
        return a, has_a and has_b
    return (a, has_a) if order * sign > 0 else (b, has_b)


def complement(region: Region, points: SetOf) -> Region:
    """A region without some points.

    Raises:
        Unreadable: it is not the whole line, or the points cannot be ordered.
    """
    trees = [item.tree for item in points.items if isinstance(item, Quantity)]
    if len(trees) != len(points.items) or len(region.spans) != 1 or region.spans[0].low != MINUS_INFINITE:
        raise Unreadable("points can be taken from the real line only")
    if region.spans[0].high != INFINITE:
        raise Unreadable("points can be taken from the real line only")
    ordered = sorted(trees, key=_sort_key)
    ends = [MINUS_INFINITE, *ordered, INFINITE]
    return Region(tuple(Span(low, high, False, False) for low, high in itertools.pairwise(ends)))


def _sort_key(tree: Tree) -> float:
    place = place_of(tree)
    if place is None:
        raise Unreadable("the ends of intervals cannot be ordered")
    return place


def _canonical(spans: Sequence[Span]) -> tuple[Span, ...]:
    """In order, and what touches or overlaps as one."""
    ordered = sorted(spans, key=lambda span: (_sort_key(span.low), not span.has_low))
    merged: list[Span] = []
    for span in ordered:
        if not merged:
            merged.append(span)
            continue
        last = merged[-1]
        order = _order(span.low, last.high)
        touches = order is not None and (order < 0 or (order == 0 and (span.has_low or last.has_high)))
        if not touches:
            merged.append(span)
            continue
        further = _order(span.high, last.high)
        if further is None:
            raise Unreadable("the ends of intervals cannot be ordered")
        if further > 0:
            merged[-1] = Span(last.low, span.high, last.has_low, span.has_high)
        elif further == 0:
            merged[-1] = Span(last.low, last.high, last.has_low, last.has_high or span.has_high)
    return tuple(merged)
