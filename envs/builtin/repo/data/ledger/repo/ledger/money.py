"""Amounts: text to cents and back."""

import re

_AMOUNT = re.compile(r"(-?)([0-9]+)(?:\.([0-9]{2}))?")


def parse(text):
    """Cents of an amount such as "12.30", "-5" or "0.07".

    Raises:
        ValueError: it is something else.
    """
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError("not an amount: %r" % text)
    cents = int(match[2]) * 100 + int(match[3] or 0)
    return -cents if match[1] else cents


def show(cents):
    """An amount with two digits after the point."""
    sign = "-" if cents < 0 else ""
    return "%s%d.%02d" % (sign, abs(cents) // 100, abs(cents) % 100)
