"""Texts that are no formulas, compared sign by sign: dates, names of segments, sets by name."""

from __future__ import annotations

from typing import Final

from turngym.envs.verify.answers import Spelling
from turngym.envs.verify.brackets import Tokens, split
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.tokens import tokens
from turngym.envs.verify.trees import CONSTANTS, FUNCTIONS, GREEK

_SIGNS_OF_FORMULAS: Final = frozenset("^_{}⦃⦄=+*±∪∈≤≥<>≠!|")
_SET_SIGNS: Final = frozenset(("∪", "cap", "setminus"))
_KNOWN_COMMANDS: Final = (
    frozenset(CONSTANTS) | frozenset(FUNCTIONS) | GREEK
    | {"frac", "sqrt", "binom", "log", "lg", "lfloor", "rfloor", "lceil", "rceil", "reals", "emptyset", "setminus"}
)  # fmt: skip


def spelled(found: Tokens) -> Spelling:
    """Tokens as they are spelled, in lower case."""
    return Spelling(tuple(token.text.lower() for token in found))


def read_prose(found: Tokens) -> Spelling | None:
    """A text with words and numbers (a date), or sets by name (A ∪ B); None for anything else.

    Raises:
        Unreadable: its brackets do not match.
    """
    split(found, lambda _: False)
    has_word = any(token.kind in ("word", "letters") and len(token.text) > 1 for token in found)
    if has_word and all(token.kind != "cmd" and token.text not in _SIGNS_OF_FORMULAS for token in found):
        return spelled(found)
    is_algebra = all(
        (token.kind == "letters" and len(token.text) == 1) or token.text in _SET_SIGNS | {"(", ")", "'"}
        for token in found
    )
    return spelled(found) if is_algebra and any(token.text in _SET_SIGNS for token in found) else None


def read_opaque(text: str) -> Spelling | None:
    """A well-formed text with commands that mean nothing here: \\overline{AB}. None for any other.

    A formula that is merely broken is none: it holds only commands that are known.
    """
    try:
        found = tokens(text)
        split(found, lambda _: False)
    except Unreadable:
        return None
    commands = {token.text for token in found if token.kind == "cmd"}
    return spelled(found) if commands - _KNOWN_COMMANDS else None
