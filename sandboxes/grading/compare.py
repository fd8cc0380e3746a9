"""Whether a returned value is the expected one, by type and value, with rules of our own instead of `==`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from struct import pack
from typing import Any

from turngym.sandboxes.grading.values import Node


@dataclass(frozen=True, slots=True)
class Rules:
    """What counts as equal. By default type and value are both exact: `1`, `1.0` and `True` are three values.

    A bool never equals a number; two ints are always compared exactly; -0.0 equals 0.0, and NaN only NaN. Elements of
    sets and keys of dicts have no tolerance, since two of them may be close to one.
    """

    abs_tol: float | None = None
    """Floats may differ by so much. A tolerance also lets an int stand for a float, and the reverse."""
    rel_tol: float | None = None
    """Or by this share of the expected value."""
    numeric: bool = False
    """Whether an int equals a float of the same value; implied by a tolerance, but for elements and keys."""
    sequences: bool = False
    """Whether a list equals a tuple with the same items: for expected values that came through JSON."""

    def __post_init__(self) -> None:
        for name, most in (("abs_tol", math.inf), ("rel_tol", 1.0)):
            value = getattr(self, name)
            if value is not None and not 0 <= value < most:
                raise ValueError(f"{name} is at least 0 and below {most:g}, not {value}")

    @property
    def is_tolerant(self) -> bool:
        """True if there is a tolerance."""
        return self.abs_tol is not None or self.rel_tol is not None


EXACT = Rules()
"""Type and value are both exact."""


def is_same(expected: Node, actual: Node, rules: Rules = EXACT) -> bool:
    """True if the actual value is the expected one."""
    tag, want = expected
    other, got = actual
    if "o" in (tag, other):
        return False
    if tag in "id" and other in "id":
        if tag != other and not (rules.numeric or rules.is_tolerant):
            return False
        return bool(want == got) if tag == other == "i" else is_close(want, got, rules)
    if tag in "lt" and (other == tag or (rules.sequences and other in "lt")):
        return len(want) == len(got) and all(is_same(w, g, rules) for w, g in zip(want, got, strict=True))
    if tag != other:
        return False
    if tag == "c":
        return is_close(want.real, got.real, rules) and is_close(want.imag, got.imag, rules)
    if tag in "SZ":
        return len(want) == len(got) and _keys(want, rules) == _keys(got, rules)
    if tag == "m":
        return len(want) == len(got) and _is_same_dict(want, got, rules)
    return bool(want == got)


def is_close(want: float, got: float, rules: Rules = EXACT) -> bool:
    """True if a number is the expected one, or within the tolerance of it."""
    if want != want or got != got:
        return want != want and got != got
    if want == got:
        return True
    if not rules.is_tolerant or want in (math.inf, -math.inf) or got in (math.inf, -math.inf):
        return False
    try:
        tolerance = max(rules.abs_tol or 0.0, (rules.rel_tol or 0.0) * abs(want))
        return abs(got - want) <= tolerance  # what is no number at all is never within
    except OverflowError:  # an int beyond every float
        return False


def _is_same_dict(want: list[tuple[Node, Node]], got: list[tuple[Node, Node]], rules: Rules) -> bool:
    theirs = {_key(key, rules): value for key, value in got}
    ours = {_key(key, rules): value for key, value in want}
    return ours.keys() == theirs.keys() and all(
        is_same(value, theirs[key], rules) for key, value in ours.items()
    )


def _keys(nodes: list[Node], rules: Rules) -> list[bytes]:
    return sorted(_key(node, rules) for node in nodes)


def _key(node: Node, rules: Rules) -> bytes:
    """Bytes that two keys share if and only if they are the same.

    Hashes of bytes are salted, those of numbers are not: a candidate can send numbers that all collide.
    """
    tag, content = node
    if tag == "d":
        return _number_key(content, rules)
    if tag == "c":
        return b"c" + _number_key(content.real, rules) + _number_key(content.imag, rules)
    if tag in "tZ":
        keys = [_key(item, rules) for item in content]
        return b"%s%d:" % (tag.encode(), len(keys)) + b"".join(sorted(keys) if tag == "Z" else keys)
    body = _plain(content)
    return b"%s%d:" % (tag.encode(), len(body)) + body


def _number_key(number: float, rules: Rules) -> bytes:
    if number != number:
        return b"nan;"
    if rules.numeric and number.is_integer():
        body = _plain(int(number))
        return b"i%d:" % len(body) + body
    return b"d" + pack(">d", number + 0.0)  # -0.0 + 0.0 is 0.0


def _plain(content: Any) -> bytes:
    if isinstance(content, str):
        return content.encode("utf-8", "surrogatepass")
    if isinstance(content, int):
        return b"%x" % content
    return bytes(content or b"")


def show(node: Node, room: int = 200) -> str:
    """A short text for people; no more than about `room` characters of it are ever made."""
    tag, content = node
    if tag in "NTF":
        return {"N": "None", "T": "True", "F": "False"}[tag]
    if tag == "o":
        return f"<{content[:60]}>"
    if tag == "i":
        return str(content) if content.bit_length() < 400 else f"<an int of {content.bit_length()} bits>"
    if tag not in "ltSZm":
        text = repr(content[:room] if tag in "sby" else content)
        return text if len(text) <= room else text[:room] + "…"
    opening, closing = {"l": "[]", "t": "()", "S": "{}", "Z": ("frozenset{", "}"), "m": "{}"}[tag]
    text = opening
    for index, item in enumerate(content):
        text += ", " if index else ""
        if len(text) > room:
            return text + "…" + closing
        left = max(8, room - len(text))
        text += f"{show(item[0], left)}: {show(item[1], left)}" if tag == "m" else show(item, left)
    return text + ("," if tag == "t" and len(content) == 1 else "") + closing
