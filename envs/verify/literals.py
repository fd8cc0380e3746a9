"""Numbers as they are written: with thousands separators, decimals, repeating decimals, powers of ten; exact."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

from turngym.envs.verify.errors import Unreadable

MOST_DIGITS: Final = 1_500
"""The most digits of a number, and the greatest power of ten behind an `e`."""
_NUMBER: Final = re.compile(
    r"(?:(?P<grouped>[1-9][0-9]{0,2}(?:(?P<gap>[,\ue000\ue001 ])[0-9]{3}(?:(?P=gap)[0-9]{3})*)(?![0-9]))"
    r"|(?P<plain>[0-9]+)|(?=\.[0-9]))(?P<decimals>\.[0-9]*(?![0-9]))?"
)
_COMMA_DECIMALS: Final = re.compile(r"\ue000([0-9]+)(?![0-9\ue000])")
_REPEATED: Final = re.compile(r"\\(?:overline|bar)\s*\{([0-9]{1,40})\}")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)(?![0-9A-Za-z.])")
_WHOLE: Final = re.compile(r"(?P<grouped>)(?P<plain>[0-9]+)(?P<decimals>\.[0-9]*)?")


def read_literal(text: str, place: int, *, has_commas: bool) -> tuple[Fraction, int]:
    """The number that begins at a place, and where it ends.

    Args:
        text: a formula.
        place: of a digit or a decimal point.
        has_commas: True: commas and spaces may part thousands, as they may not where they part the items of a tuple.

    Raises:
        Unreadable: it is too long, or no number.
    """
    match = _NUMBER.match(text, place)
    if match is not None and match["grouped"] and match["gap"] in ", " and not has_commas:
        match = _WHOLE.match(text, place)
    if match is None:
        raise Unreadable("a full stop inside of a formula")
    whole = re.sub("[^0-9]", "", match["grouped"] or match["plain"] or "")
    decimals, end = (match["decimals"] or "")[1:], match.end()
    again = _REPEATED.match(text, end) if match["decimals"] else None
    if not match["decimals"] and (comma := _COMMA_DECIMALS.match(text, end)):
        decimals, end = comma[1], comma.end()
    elif match["decimals"] == "." and again is None and text[end:].strip():
        raise Unreadable("a full stop inside of a formula")
    if len(whole) + len(decimals) > MOST_DIGITS:
        raise Unreadable(f"a number has at most {MOST_DIGITS} digits")
    value = Fraction(int(whole + decimals or "0"), 10 ** len(decimals))
    if again is not None:
        value += Fraction(int(again[1]), (10 ** len(again[1]) - 1) * 10 ** len(decimals))
        return value, again.end()
    exponent = _EXPONENT.match(text, end)
    if exponent is None:
        return value, end
    power = int(exponent[1][:9])
    if abs(power) > MOST_DIGITS:
        raise Unreadable(f"a power of ten beyond {MOST_DIGITS}")
    return value * Fraction(10) ** power, exponent.end()
