"""Single values: a number with its unit, a formula, a word, a ratio, digits in another base."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from turngym.envs.verify.answers import REALS, Answer, Based, Quantity, Ratio, SetOf, Words
from turngym.envs.verify.brackets import CLOSINGS, OPENINGS, Tokens, on, split
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.expression import read_expression
from turngym.envs.verify.spelling import spelled
from turngym.envs.verify.tokens import Token
from turngym.envs.verify.trees import CONSTANTS, FUNCTIONS, Tree, number, product
from turngym.envs.verify.units import CURRENCIES, MULTIPLES, Unit, is_unit_letters, named, read_unit

_ALL_REALS: Final = frozenset(("all real numbers", "all reals", "all real", "real numbers"))
_EMPTY: Final = frozenset(("empty set", "the empty set", "null set"))


def read_single(found: Tokens) -> Answer:
    """A single value.

    Raises:
        Unreadable: it is none.
    """
    parts = split(found, on(":"))
    if len(parts) > 1:
        return _ratio(parts)
    return _constant(found) or _based(found) or _wordy(found)


def plain_formula(found: Tokens) -> Tree:
    """A formula without a unit.

    Raises:
        Unreadable: it is none.
    """
    value = _quantity(found)
    if value.unit is not None or value.is_percent:
        raise Unreadable("a formula without a unit is expected")
    return value.tree


def read_name(found: Tokens) -> str | None:
    """x, x_1, f(x), (x, y) or a word, as a name for a value; None if it is something else."""
    text = "".join(token.text for token in found)
    kinds = [token.kind for token in found]
    if not all(kind in ("letters", "word", "op", "num", "cmd") for kind in kinds):
        return None
    if all(
        kind == "word" or (kind == "letters" and len(t.text) > 3)
        for kind, t in zip(kinds, found, strict=True)
    ):
        return text.lower()
    if len(found) == 1 and found[0].kind == "letters" and text.isupper() and len(text) <= 4:
        return text  # AB, the length of a segment
    head = found[0]
    is_letter = (head.kind in ("letters", "word") and len(head.text) == 1) or (
        head.kind == "cmd" and head.text.isalpha() and head.text not in CONSTANTS and head.text not in FUNCTIONS
        and head.text not in ("frac", "sqrt", "binom", "reals", "emptyset")
    )  # fmt: skip
    if is_letter and head.text not in CONSTANTS:
        rest = [token.text for token in found[1:]]
        if not rest:
            return text
        if rest[0] == "_" and all(t not in "+-*/^=" for t in rest):
            return text.replace("{", "").replace("}", "")
        if rest[0] == "(" and rest[-1] == ")" and len(rest) == 3 and found[2].kind in ("letters", "num"):
            return text
    if head.text == "(" and found[-1].text == ")":
        names = split(found[1:-1], on(","))
        if len(names) > 1 and all(
            len(n) == 1 and n[0].kind == "letters" and len(n[0].text) == 1 for n in names
        ):
            return text
    return None


def _ratio(parts: list[Tokens]) -> Answer:
    if _is_time(parts):
        return spelled([token for part in parts for token in (*part, Token("op", ":"))])
    return Ratio(tuple(Quantity(plain_formula(part)) for part in parts))


def _is_time(parts: list[Tokens]) -> bool:
    """Whether it looks like a time of day, 10:30 or 9:05 am: that is no ratio that could be reduced."""
    if len(parts) != 2 or len(parts[0]) != 1 or not parts[1]:
        return False
    hour, (minute, *rest) = parts[0][0].text, parts[1]
    is_clock = hour.isdigit() and int(hour) <= 24 and minute.text.isdigit() and len(minute.text) == 2
    return is_clock and int(minute.text) < 60 and all(token.kind in ("letters", "word") for token in rest)


def _constant(found: Tokens) -> Answer | None:
    if len(found) == 1 and found[0].kind == "cmd":
        if found[0].text == "reals":
            return REALS
        if found[0].text == "emptyset":
            return SetOf(())
        if found[0].text.startswith("mathbb "):
            return Words(found[0].text)
    return None


def _based(found: Tokens) -> Answer | None:
    """1010_2 and 2A_{16}."""
    texts = [token.text for token in found]
    if "_" not in texts or found[0].kind != "num" or "^" in texts:
        return None
    place = texts.index("_")
    base = "".join(texts[place + 1 :]).strip("{}")
    digits = "".join(texts[:place])
    if not (base.isdecimal() and 2 <= int(base[:3]) <= 36 and digits.isalnum()):
        return None
    return Based(digits.upper(), int(base))


def _wordy(found: Tokens) -> Answer:
    """A text, or a quantity."""
    if all(token.kind in ("word", "letters") for token in found):
        text = " ".join(token.text for token in found)
        lowered = text.lower()
        if lowered in _ALL_REALS:
            return REALS
        if lowered in _EMPTY:
            return SetOf(())
        is_known = len(found) == 1 and (lowered in CONSTANTS or lowered in FUNCTIONS) and len(text) > 1
        letters = "".join(token.text for token in found)
        if not is_known and (
            (len(found) > 1 and any(len(t.text) > 2 or t.kind == "word" for t in found)) or len(letters) > 2
            or (found[0].kind == "word" and len(text) > 1)
        ):  # fmt: skip
            return Words(lowered)
        return Quantity(_quantity(found).tree, letters=text)
    return _quantity(found)


def _quantity(found: Tokens) -> Quantity:
    """A formula with a unit or a percent sign."""
    found, unit = _currency(found)
    tail = _unit_start(found)
    body, rest = found[:tail], found[tail:]
    is_percent = False
    if rest and rest[0].text in CURRENCIES:
        unit, rest = named(CURRENCIES[rest[0].text]), rest[1:]
    if rest and _is_percent(rest[0]):
        is_percent = True
        rest = rest[1:]
    factor = Fraction(1)
    if rest and rest[0].text.lower() in MULTIPLES:
        factor = Fraction(MULTIPLES[rest[0].text.lower()])
        rest = rest[1:]
    if rest:
        found_unit = read_unit(rest)
        if found_unit is None or (unit is not None and found_unit != unit):
            raise Unreadable("what comes behind the number is no unit")
        unit = found_unit
    tree = read_expression(body)
    if tree[0] == "deg":
        if unit is not None:
            raise Unreadable("an angle with another unit")
        tree, unit = tree[1], named("degree")
    if factor != 1:
        tree = number(tree[1] * factor) if tree[0] == "num" else product((tree, number(factor)))
    return Quantity(tree, is_percent, unit if unit is None or unit.dimension else None)


def _is_percent(token: Token) -> bool:
    return token.text == "%" or token.text.lower() in ("percent", "percentage", "pct")


def _currency(found: Tokens) -> tuple[Tokens, Unit | None]:
    """The tokens without the sign of a currency in front, and that currency."""
    start = 1 if found and found[0].text == "-" and len(found) > 1 else 0
    if found and (found[start].text in CURRENCIES or found[start].text in ("USD", "EUR", "GBP")):
        unit = named(CURRENCIES.get(found[start].text, found[start].text.lower()))
        return [*found[:start], *found[start + 1 :]], unit
    return found, None


def _is_unit(found: Tokens, place: int) -> bool:
    """Whether a unit begins at a place; a single letter is one only behind numbers: 5 m, but not c² m."""
    token = found[place]
    if not is_unit_letters(token) or found[place - 1].text in ("_", "^", "*"):
        return False
    return len(token.text) > 1 or all(one.kind not in ("letters", "word") for one in found[:place])


def _unit_start(found: Tokens) -> int:
    """Where the formula ends and a unit, a percent sign or a multiple begins."""
    depth = 0
    for place, token in enumerate(found):
        if token.kind == "op":
            depth += (token.text in OPENINGS) - (token.text in CLOSINGS)
        if depth or place == 0:
            continue
        if _is_percent(token) or token.text in CURRENCIES or token.text.lower() in MULTIPLES:
            return place
        if token.kind == "word" and len(token.text) > 1 and token.text.lower() not in CONSTANTS:
            return place
        if token.kind in ("word", "letters") and _is_unit(found, place):
            return place
        is_noun = token.kind == "letters" and len(token.text) > 3 and token.text.lower() not in FUNCTIONS
        if is_noun and token.text.lower() not in CONSTANTS and token.text != "sqrt":
            return place
    return len(found)
