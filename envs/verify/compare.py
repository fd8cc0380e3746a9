"""Whether two answers are the same: by value, part by part, whatever their notation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from turngym.envs.verify.answers import (
    Answer,
    Based,
    Equals,
    Group,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Region,
    Relation,
    SetOf,
    Several,
    Words,
)
from turngym.envs.verify.judges import Judge, Known, every, some
from turngym.envs.verify.regions import region_of
from turngym.envs.verify.trees import difference, names_in, number, product
from turngym.envs.verify.values import approximate, exact


def same(a: Answer, b: Answer, judge: Judge) -> Known:
    """Whether a reference and an answer are the same.

    Args:
        a: the reference.
        b: the answer.
        judge: compares formulas.
    """
    if isinstance(b, Equals):
        return every(same(a, side, judge) for side in b.sides)
    if isinstance(a, Equals):
        return every(same(side, b, judge) for side in a.sides)
    if isinstance(a, Named) or isinstance(b, Named):
        return _named(a, b, judge)
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return _quantities(a, b, judge)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Words):
            return _words(one, other)
        if isinstance(one, Several) and not isinstance(other, Quantity):
            return _several(one, other, judge)
        if isinstance(one, Ratio):
            return isinstance(other, Ratio) and _ratios(one, other, judge)
        if isinstance(one, Based):
            return isinstance(other, Based) and _based(one, other)
    return _collections(a, b, judge)


def _collections(a: Answer, b: Answer, judge: Judge) -> Known:
    if isinstance(a, SetOf) and isinstance(b, SetOf):
        return every(
            some(same(x, y, judge) for y in others)
            for items, others in ((a.items, b.items), (b.items, a.items))
            for x in items
        )
    if isinstance(a, Group) and isinstance(b, Group):
        if (a.opening, a.closing, len(a.items)) != (b.opening, b.closing, len(b.items)):
            return False
        return every(same(x, y, judge) for x, y in zip(a.items, b.items, strict=True))
    if isinstance(a, Region) or isinstance(b, Region):
        return _regions(a, b, judge)
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        if (a.kind, len(a.rows), len(a.rows[0])) != (b.kind, len(b.rows), len(b.rows[0])):
            return False
        return every(
            same(x, y, judge)
            for row, other in zip(a.rows, b.rows, strict=True)
            for x, y in zip(row, other, strict=True)
        )
    if isinstance(a, Relation) and isinstance(b, Relation):
        return _relations(a, b, judge)
    return a == b


def _named(a: Answer, b: Answer, judge: Judge) -> Known:
    """A name that only one side gives says nothing; two names must be the same."""
    if isinstance(a, Named) and isinstance(b, Named):
        if a.name == b.name:
            return same(a.value, b.value, judge)
        return _as_equations(a, b, judge)
    one, other = (a, b) if isinstance(a, Named) else (b, a)
    assert isinstance(one, Named)
    if isinstance(other, Relation):  # y = 2x + 1 is a line in any form, but 2x = 10 is not yet x = 5
        equation = _equation(one)
        return equation is not None and bool(names_in(equation.sides[1])) and same(equation, other, judge)
    if isinstance(other, Several) and isinstance(one.value, Group) and one.name.startswith("("):
        return _by_names(one, other, judge)
    return same(one.value, other, judge)


def _as_equations(a: Named, b: Named, judge: Judge) -> Known:
    """y = 2x + 1 and x = (y − 1)/2 say the same of x and y."""
    one, other = _equation(a), _equation(b)
    if one is None or other is None or not (names_in(one.sides[1]) and names_in(other.sides[1])):
        return False
    return same(one, other, judge)


def _equation(named: Named) -> Relation | None:
    value = named.value
    if not isinstance(value, Quantity) or value.unit is not None or not _is_letter(named.name):
        return None
    return Relation((("name", named.name), value.tree), ("=",))


def _is_letter(name: str) -> bool:
    return len(name.partition("_")[0]) == 1


def _by_names(one: Named, other: Several, judge: Judge) -> Known:
    """(x, y) = (1, 2) against y = 2, x = 1; or against 1, 2."""
    assert isinstance(one.value, Group)
    names = one.name.strip("()").split(",")
    values = {item.name: item.value for item in other.items if isinstance(item, Named)}
    if not values:
        return same(one.value, other, judge)
    if len(other.items) != len(names) or values.keys() != set(names):
        return False
    return every(same(item, values[name], judge) for name, item in zip(names, one.value.items, strict=True))


def _quantities(a: Quantity, b: Quantity, judge: Judge) -> Known:
    """By value; units must agree where both have one, and 50% is 0.5 as well as 50."""
    if a.letters.lower() == b.letters.lower() == "no":
        return True
    factor = Fraction(1)
    if a.unit is not None and b.unit is not None:
        if a.unit.dimension != b.unit.dimension:
            return False
        factor = b.unit.size / a.unit.size
    left, right = a.tree, b.tree if factor == 1 else product((b.tree, number(factor)))
    if a.is_percent == b.is_percent:
        return judge.same(left, right)
    if a.unit is not None or b.unit is not None:
        return False
    hundredth = number(Fraction(1, 100))
    percent, plain = (left, right) if a.is_percent else (right, left)
    is_value = judge.same(product((percent, hundredth)), plain)
    if is_value:
        return True
    size = approximate(plain, {}) if not names_in(plain) else None
    # Data sets leave the sign of a percentage out: 50 stands for 50%. A number up to 1 is a share itself.
    is_bare = judge.same(percent, plain) if size is not None and abs(size[0]) > 1 else False
    return some((is_value, is_bare))


def _words(words: Words, other: Answer) -> bool:
    if isinstance(other, Words):
        return words.text == other.text
    if isinstance(other, Quantity) and other.letters:
        text = other.letters if len(other.letters) == 1 else other.letters.lower()
        return words.text in (text, other.letters)
    return False


def _several(several: Several, other: Answer, judge: Judge) -> Known:
    """A row of answers: in any order against another row or a set, in this order against a tuple."""
    if isinstance(other, Group):
        if (other.opening, other.closing) != ("(", ")") or len(other.items) != len(several.items):
            return False
        items = _in_order(several.items)
        return items is not None and every(same(x, y, judge) for x, y in zip(items, other.items, strict=True))
    if not isinstance(other, Several | SetOf) or len(other.items) != len(several.items):
        return False
    return matched(several.items, other.items, lambda x, y: same(x, y, judge))


def _in_order(items: Sequence[Answer]) -> Sequence[Answer] | None:
    """Items as a tuple has them; y = 2, x = 1 by the order of the names. None if that is no order."""
    named = {item.name: item.value for item in items if isinstance(item, Named)}
    if not named:
        return items
    return [named[name] for name in sorted(named)] if len(named) == len(items) else None


def matched(
    items: Sequence[Answer], others: Sequence[Answer], alike: Callable[[Answer, Answer], Known]
) -> Known:
    """Whether items can be paired off, each with one that is the same.

    "The same" is transitive up to percent signs and units, so the first partner that fits is as good as any.
    """
    free = list(others)
    result: Known = True
    for item in items:
        verdicts = [alike(item, one) for one in free]
        if True in verdicts:
            del free[verdicts.index(True)]
        elif None in verdicts:
            del free[verdicts.index(None)]
            result = None
        else:
            # A partner may have been given away to an item about which nothing is known.
            return None if result is None else False
    return result


def _regions(a: Answer, b: Answer, judge: Judge) -> Known:
    one, other = region_of(a), region_of(b)
    if one is None or other is None:
        return False
    if one.name is not None and other.name is not None and one.name != other.name:
        return False
    if len(one.spans) != len(other.spans):
        return False
    return every(
        every(
            (
                (x.has_low, x.has_high) == (y.has_low, y.has_high),
                judge.same(x.low, y.low),
                judge.same(x.high, y.high),
            )
        )
        for x, y in zip(one.spans, other.spans, strict=True)
    )


_FLIPPED = {"<": ">", ">": "<", "≤": "≥", "≥": "≤", "≠": "≠", "=": "="}


def _relations(a: Relation, b: Relation, judge: Judge) -> Known:
    """The same sides (from either end), or one relation that is a multiple of the other."""
    if len(a.sides) != len(b.sides):
        return False
    flipped = tuple(_FLIPPED[operator] for operator in reversed(b.operators))
    straight = a.operators == b.operators and every(map(judge.same, a.sides, b.sides))
    backward = a.operators == flipped and every(map(judge.same, a.sides, reversed(b.sides)))
    found = some((straight, backward))
    if found is not False or len(a.sides) != 2:
        return found
    sign = judge.multiple(difference(*a.sides), difference(*b.sides))
    if sign is None or sign == 0:
        return None if sign is None else False
    operator = a.operators[0]
    return (operator if sign > 0 else _FLIPPED[operator]) == b.operators[0]


def _ratios(a: Ratio, b: Ratio, judge: Judge) -> Known:
    """3 : 4 is 6 : 8."""
    if len(a.items) != len(b.items):
        return False
    plain = every(same(x, y, judge) for x, y in zip(a.items, b.items, strict=True))
    values = [[exact(item.tree) if isinstance(item, Quantity) else None for item in r.items] for r in (a, b)]
    (x, *xs), (y, *ys) = values
    if plain or not x or not y or None in xs + ys:
        return plain
    return all(p is not None and q is not None and p * y == q * x for p, q in zip(xs, ys, strict=True))


def _based(a: Based, b: Based) -> bool:
    if a.base == b.base:
        return a.digits.lstrip("0") == b.digits.lstrip("0")
    try:
        return int(a.digits, a.base) == int(b.digits, b.base)
    except ValueError:
        return False
