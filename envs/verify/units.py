"""Units behind a number: 5 cm, $18, 90°, 60 miles per hour, 24 apples.

A unit is its dimension and its size: 1 m and 100 cm are the same length. A noun that is no unit of measure ("apples")
is a dimension of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from turngym.envs.verify.tokens import Token


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measure, or what is counted."""

    dimension: tuple[tuple[str, int], ...]
    """Base dimensions and their powers, in alphabetical order; empty for a mere "unit"."""
    size: Fraction = Fraction(1)
    """In the base units of that dimension."""


_SIZES: Final[dict[str, dict[str, str | int]]] = {
    "length": {"m meter metre": 1, "cm centimeter centimetre": "1/100", "mm millimeter millimetre": "1/1000",
               "dm decimeter": "1/10", "km kilometer kilometre": 1000, "nm nanometer": "1/1000000000",
               "in inch": "254/10000", "ft foot feet": "3048/10000", "yd yard": "9144/10000",
               "mi mile": "1609344/1000"},
    "mass": {"kg kilogram": 1, "g gram": "1/1000", "mg milligram": "1/1000000", "ton tonne": 1000,
             "lb pound": "45359237/100000000", "oz ounce": "45359237/1600000000"},
    "time": {"s sec second": 1, "ms millisecond": "1/1000", "min minute": 60, "h hr hour": 3600, "day": 86400,
             "week": 604800},
    "month": {"month": 1, "yr year": 12},
    "volume": {"L l liter litre": 1, "ml mL milliliter millilitre": "1/1000"},
    "gallon": {"gal gallon": 1, "qt quart": "1/4", "pint": "1/8", "cup": "1/16"},
    "money": {"dollar usd buck": 1, "cent": "1/100"},
    "euro": {"euro eur": 1}, "sterling": {"gbp": 1},
    "angle": {"degree deg": 1}, "radian": {"radian rad": 1},
}  # fmt: skip
_KNOWN: Final[dict[str, tuple[str, Fraction]]] = {
    name: (dimension, Fraction(size))
    for dimension, units in _SIZES.items()
    for names, size in units.items()
    for name in names.split()
}
_PLURALS: Final = {"feet": "foot", "inches": "inch", "halves": "half", "people": "person", "children": "child",
                   "men": "man", "women": "woman", "hours": "hour"}  # fmt: skip
_RATES: Final = {
    "mph": ("length", "mile"),
    "kmh": ("length", "km"),
    "kph": ("length", "km"),
    "kmph": ("length", "km"),
}
MULTIPLES: Final = {
    "dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12,
}  # fmt: skip
"""Words that multiply the number before them."""
_NO_NOUNS_TEXT: Final = """
or not no and to than less more plus minus times through if is are was be been equals equal either neither nor
maybe perhaps possibly but except unless about around approximately roughly almost nearly between until from
the answer point percent then else lambda for while mod modulo all any wrong incorrect false true with without
divided multiplied squared cubed doubled tripled halved factorial choose inverse reciprocal negative positive
infinity over under half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths eighth
eighths tenth tenths hundredth hundredths thousandth thousandths pair pairs score gross"""
_NO_NOUNS: Final = frozenset(_NO_NOUNS_TEXT.split())
_POWERS: Final = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_MOST_WORDS: Final = 5
CURRENCIES: Final = {"$": "dollar", "€": "euro", "£": "gbp"}


def named(name: str) -> Unit:
    """The unit of one name."""
    dimension, size = _KNOWN[name]
    return Unit(((dimension, 1),), size)


def read_unit(tokens: Sequence[Token]) -> Unit | None:
    """The unit that all the tokens spell; None if they spell none."""
    words = _words(tokens)
    if not words or len(words) > _MOST_WORDS * 2:
        return None
    for divider in ("per", "/"):
        if divider in words:
            place = words.index(divider)
            above, below = _product(words[:place]), _product(words[place + 1 :])
            return None if above is None or below is None else _joined(above, below, -1)
    return _product(words)


def is_unit_letters(token: Token) -> bool:
    """Whether letters inside of a formula are the name of a unit, and not a product of names."""
    text = token.text
    if len(text) == 1:
        return token.is_spaced and text in ("m", "g", "s", "h", "L", "l")
    return _singular(text) in _KNOWN or text.lower() in _RATES or text in _POWERS


def _words(tokens: Sequence[Token]) -> list[str] | None:
    """Names, powers ("^2") and "/" in order; None if there is anything else."""
    words: list[str] = []
    place = 0
    while place < len(tokens):
        token = tokens[place]
        if token.kind in ("letters", "word"):
            words.append(token.text)
        elif token.text == "°":
            words.append("degree")
        elif token.text in ("/", "per"):
            words.append("/")
        elif token.text == "^":
            power = [t.text for t in tokens[place + 1 : place + 4]]
            if power[:1] == ["{"] and len(power) == 3 and power[2] == "}":
                place += 2
                power = power[1:2]
            if power[:1] not in (["2"], ["3"]):
                return None
            words.append("^" + power[0])
            place += 1
        elif token.text not in ("*", "{", "}"):
            return None
        place += 1
    return words


def _product(words: Sequence[str]) -> Unit | None:
    """Units beside each other, with their powers; or a noun with its adjectives."""
    unit = Unit(())
    power = 1
    nouns: list[str] = []
    before: Unit | None = None
    for word in words:
        lowered = word.lower()
        if word.startswith("^"):
            if before is None:
                return None
            unit = _joined(unit, _raised(before, int(word[1]) - 1), 1)
            before = None
        elif lowered in _POWERS:
            power = _POWERS[lowered]
        elif (found := _single(word)) is not None:
            before = _raised(found, power)
            unit = _joined(unit, before, 1)
            power = 1
        elif lowered in ("unit", "units"):
            power = 1
        elif lowered in _NO_NOUNS or lowered in MULTIPLES or not (word.isalpha() and len(word) > 1):
            return None
        else:
            nouns.append(_noun(lowered))
    if nouns:
        if len(words) > _MOST_WORDS or power != 1:
            return None
        return Unit((*unit.dimension, (" ".join(nouns), 1)), unit.size)
    return unit


def _single(word: str) -> Unit | None:
    lowered = word.lower()
    if lowered in _RATES:
        dimension, name = _RATES[lowered]
        hour = Unit((("time", 1),), Fraction(3600))
        return _joined(Unit(((dimension, 1),), _KNOWN[name][1]), hour, -1)
    name = _singular(word)
    return named(name) if name in _KNOWN else None


def _singular(word: str) -> str:
    """The name under which a unit is known; single letters keep their case."""
    if word in _KNOWN:
        return word
    lowered = word.lower()
    if len(word) == 1:
        return word
    for one in (lowered, _PLURALS.get(lowered, ""), lowered.removesuffix("s"), lowered.removesuffix("es")):
        if one in _KNOWN and len(one) > 1:
            return one
    return lowered


def _noun(word: str) -> str:
    if word in _PLURALS:
        return _PLURALS[word]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _raised(unit: Unit, power: int) -> Unit:
    return Unit(tuple((name, n * power) for name, n in unit.dimension), unit.size**power)


def _joined(a: Unit, b: Unit, power: int) -> Unit:
    """a · b, or a / b."""
    powers = dict(a.dimension)
    for name, n in b.dimension:
        powers[name] = powers.get(name, 0) + n * power
    dimension = tuple(sorted((name, n) for name, n in powers.items() if n))
    return Unit(dimension, a.size * b.size**power)
