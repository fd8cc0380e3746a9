"""Reads an answer: which sort it is, and its parts.

read(r"x \\in [0, 1)")      # a region
read("1, 2 and 3")         # several quantities
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from turngym.envs.verify.answers import (
    Answer,
    Equals,
    Group,
    Matrix,
    Named,
    Quantity,
    Region,
    Relation,
    SetOf,
    Several,
)
from turngym.envs.verify.brackets import RELATIONS, Tokens, is_separator, on, partner, relations_in, split
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.expression import read_expression
from turngym.envs.verify.quantities import plain_formula, read_name, read_single
from turngym.envs.verify.regions import complement, region_of, solved, united
from turngym.envs.verify.spelling import read_prose
from turngym.envs.verify.tokens import Token, tokens
from turngym.envs.verify.trees import names_in

_MATRICES: Final = frozenset(("matrix", "pmatrix", "bmatrix", "Bmatrix", "vmatrix", "array", "smallmatrix"))
_DEEPEST: Final = 8
_MOST_ITEMS: Final = 64


@functools.lru_cache(maxsize=4096)
def read(text: str) -> Answer:
    """What an answer says.

    Raises:
        Unreadable: it is no answer of a kind that is known here.
    """
    found = tokens(text)
    if not found:
        raise Unreadable("there is nothing")
    try:
        return _listed(_unwrapped(found), 0)
    except Unreadable:
        prose = read_prose(found)
        if prose is None:
            raise
        return prose


def _unwrapped(found: Tokens) -> Tokens:
    """Without braces around everything, unless they hold a list; and B for B), which names a choice."""
    if len(found) == 2 and found[1].text == ")" and len(found[0].text) == 1 and found[0].text.isalpha():
        return found[:1]
    while (
        len(found) > 2
        and found[0].text == "{"
        and partner(found, 0) == len(found) - 1
        and len(split(found[1:-1], is_separator)) == 1
    ):
        found = found[1:-1]
    return found


def _listed(found: Tokens, depth: int) -> Answer:
    """One answer, or several."""
    if depth > _DEEPEST:
        raise Unreadable("an answer is nested too deeply")
    french = _french_interval(found, depth)
    if french is not None:
        return french
    parts = split(found, is_separator)
    if len(parts) == 1:
        return _item(found, depth)
    separators = {token.text.lower() for token in found if is_separator(token)}
    kept = [part for part in parts if part]
    if len(kept) < len(parts) and not ("," in separators and separators & {"and", "or"}):
        raise Unreadable("nothing between two separators")
    if len(kept) > _MOST_ITEMS:
        raise Unreadable(f"a list has at most {_MOST_ITEMS} items")
    return _combined([_item(part, depth) for part in kept], is_or=separators == {"or"})


def _combined(items: list[Answer], *, is_or: bool) -> Answer:
    """Conditions as one region; values of one name without it."""
    if all(isinstance(item, Region) for item in items):
        return united([item for item in items if isinstance(item, Region)], is_or=is_or)
    if isinstance(items[0], Named):
        names = {item.name for item in items if isinstance(item, Named)}
        if len(names) == 1:
            values = [item.value if isinstance(item, Named) else item for item in items]
            return Named(items[0].name, Several(tuple(_flat(values))))
    return Several(tuple(_flat(items)))


def _flat(items: Sequence[Answer]) -> list[Answer]:
    """Lists in a list are its items: 1, ±2."""
    return [one for item in items for one in (item.items if isinstance(item, Several) else (item,))]


def _item(found: Tokens, depth: int) -> Answer:
    """One answer: a value, or a relation."""
    operators = relations_in(found)
    if not operators:
        return _value(found, depth)
    sides = split(found, lambda token: token.kind == "op" and token.text in RELATIONS)
    if any(not side for side in sides):
        raise Unreadable("a relation without one of its sides")
    if "∈" in operators:
        if operators != ["∈"]:
            raise Unreadable("a chain of relations with a set")
        value = _value(sides[1], depth)
        name = read_name(sides[0])
        if name is None:
            raise Unreadable("only a name is in a set")
        return Region(value.spans, name) if isinstance(value, Region) else Named(name, value)
    return _equation(sides, depth) if set(operators) == {"="} else _inequality(sides, operators)


def _equation(sides: list[Tokens], depth: int) -> Answer:
    name = read_name(sides[0])
    if name is not None:
        return _with_names(name, _equal([_value(side, depth) for side in sides[1:]]))
    name = read_name(sides[-1])
    if name is not None and len(sides) == 2:
        return Named(name, _value(sides[0], depth))
    values = [_value(side, depth) for side in sides]
    if any(_has_names(value) for value in values):
        return Relation(tuple(read_expression(side) for side in sides), ("=",) * (len(sides) - 1))
    return Equals(tuple(values))


def _equal(values: list[Answer]) -> Answer:
    return values[0] if len(values) == 1 else Equals(tuple(values))


def _has_names(value: Answer) -> bool:
    return isinstance(value, Quantity) and bool(names_in(value.tree))


def _with_names(name: str, value: Answer) -> Answer:
    """(x, y) = (1, 2) as the tuple; the names say nothing that the order does not."""
    if name.startswith("(") and isinstance(value, Group):
        names = name.strip("()").split(",")
        if len(names) == len(value.items):
            return Named(name, value)
        raise Unreadable("as many names as values are expected")
    return Named(name, value)


def _inequality(sides: list[Tokens], operators: list[str]) -> Answer:
    trees = tuple(plain_formula(side) for side in sides)
    relation = Relation(trees, tuple(operators))
    return solved(relation) or relation


def _value(found: Tokens, depth: int) -> Answer:
    """A value of any sort."""
    if not found:
        raise Unreadable("there is nothing")
    if depth > _DEEPEST:
        raise Unreadable("an answer is nested too deeply")
    parts = split(found, on("∪"))
    if len(parts) > 1:
        return united([_region(_value(part, depth + 1)) for part in parts], is_or=True)
    parts = split(found, on("setminus"))
    if len(parts) == 2:
        points = _value(parts[1], depth + 1)
        if not isinstance(points, SetOf):
            raise Unreadable("only a finite set is taken away")
        return complement(_region(_value(parts[0], depth + 1)), points)
    if any(token.text == "±" for token in found):
        return _both(found, depth)
    whole = _bracketed(found, depth)
    if whole is not None:
        return whole
    if found[0].text.startswith("begin "):
        return _matrix(found, depth)
    return read_single(found)


def _region(value: Answer) -> Region:
    if isinstance(value, Region):
        return value
    region = region_of(value)
    if region is None:
        raise Unreadable("an interval is expected")
    return region


def _both(found: Tokens, depth: int) -> Answer:
    """The two values of a formula with one ±."""
    places = [place for place, token in enumerate(found) if token.text == "±"]
    if len(places) != 1:
        raise Unreadable("several signs ±")
    items = []
    for sign in "+-":
        one = [*found]
        one[places[0]] = Token("op", sign)
        items.append(_value(one, depth + 1))
    return Several(tuple(items))


def _french_interval(found: Tokens, depth: int) -> Answer | None:
    """]a, b[, [a, b[ and ]a, b]."""
    if len(found) < 5 or found[0].text not in ("[", "]") or found[-1].text not in ("[", "]"):
        return None
    if (found[0].text, found[-1].text) == ("[", "]"):
        return None
    inner = found[1:-1]
    if any(token.kind == "op" and token.text in "[]⦃⦄" for token in inner):
        return None
    opening = "(" if found[0].text == "]" else "["
    closing = ")" if found[-1].text == "[" else "]"
    return _group(opening, inner, closing, depth)


def _group(opening: str, inner: Tokens, closing: str, depth: int) -> Answer | None:
    parts = split(inner, on(",", ";"))
    if len(parts) == 1:
        return None
    if len(parts) > _MOST_ITEMS:
        raise Unreadable(f"a tuple has at most {_MOST_ITEMS} items")
    return Group(opening, tuple(_item(part, depth + 1) for part in parts), closing)


def _bracketed(found: Tokens, depth: int) -> Answer | None:
    """What one pair of brackets holds, if there is nothing outside of it."""
    opening = found[0].text if found[0].kind == "op" else ""
    if opening not in ("(", "[", "{", "⦃") or partner(found, 0) != len(found) - 1:
        return _french_interval(found, depth)
    inner, closing = found[1:-1], found[-1].text
    if opening == "⦃" or (opening == "{" and len(split(inner, is_separator)) > 1):
        return _set(inner, depth)
    if opening == "{":
        return _listed(inner, depth + 1)
    group = _group(opening, inner, closing, depth)
    if group is None and inner and closing == {"(": ")", "[": "]"}[opening]:
        is_word = all(token.kind in ("word", "letters") for token in inner)
        is_inner = is_word or inner[0].text in ("(", "[") or inner[0].text.startswith("begin ")
        return _value(inner, depth + 1) if is_inner else None
    return group


def _set(inner: Tokens, depth: int) -> Answer:
    if not inner:
        return SetOf(())
    for bar in ("|", ":"):
        parts = split(inner, on(bar))
        if len(parts) == 2 and relations_in(parts[1]):
            name = read_name(split(parts[0], on("∈"))[0])
            condition = _listed(parts[1], depth + 1)
            if name is None or not isinstance(condition, Region):
                raise Unreadable("a set's condition is not read here")
            return Region(condition.spans)
    items = _listed(inner, depth + 1)
    return SetOf(items.items if isinstance(items, Several) else (items,))


def _matrix(found: Tokens, depth: int) -> Answer:
    kind = found[0].text.removeprefix("begin ")
    if found[-1].text != f"end {kind}" or kind not in _MATRICES:
        raise Unreadable("a matrix is expected")
    inner = found[1:-1]
    if kind == "array" and inner and inner[0].text == "{":  # how its columns are set
        inner = inner[(partner(inner, 0) or 0) + 1 :]
    rows = split(inner, on("newrow"))
    if rows and not rows[-1]:
        rows.pop()
    cells = tuple(tuple(_value(cell, depth + 1) for cell in split(row, on("&"))) for row in rows)
    if not cells or len({len(row) for row in cells}) != 1 or len(cells) * len(cells[0]) > _MOST_ITEMS:
        raise Unreadable("a matrix has rows of one length")
    return Matrix(cells, "vmatrix" if kind == "vmatrix" else "matrix")
