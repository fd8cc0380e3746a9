"""What a text says, read by rules: which words, which amounts of money, which reason codes, is it a question.

Everything that is graded is compared by whole tokens and by value: `$1,045.9`, `1045.90` and `1,045.90 USD` are the
same amount, and none of them is in `21045.90`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from turngym.envs.builtin.retail.policy import CODES, MOST_AMOUNTS

_WORD = re.compile(r"[a-z0-9](?:[a-z0-9@._+-]*[a-z0-9])?")
_AMOUNT = re.compile(
    r"(?<![\w.,$])(?:(?P<before>\$|USD)[ ]?)?(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,9})(?:\.(?P<part>[0-9]{1,2}))?"
    r"(?![\w%]|[.,][0-9])(?P<after>[ ]?(?:USD|dollars?)\b)?"
)
_CODE = re.compile(r"(?<![A-Za-z0-9-])[A-Z]+(?:-[A-Z]+)+(?![A-Za-z0-9-])")
_SENTENCE_END = re.compile(r"[.!\n]")
LONGEST: Final = 20_000
"""Characters of a message that are read; nobody listens to more."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text, split into words once."""

    text: str
    """As it was said, up to `LONGEST` characters."""
    words: frozenset[str]
    """Its words in lower case, without the punctuation around them."""
    plain: str
    """The words in order, with a space before and after each."""

    @classmethod
    def of(cls, text: str) -> Said:
        """A text, read."""
        text = text[:LONGEST]
        words = _WORD.findall(text.lower())
        return cls(text, frozenset(words), f" {' '.join(words)} ")


@dataclass(frozen=True, slots=True)
class Cues:
    """Words and phrases that show what a text is about."""

    words: frozenset[str]
    """Any of these words."""
    phrases: tuple[str, ...]
    """Or any of these phrases, whole words too (each with a space before and after)."""

    @classmethod
    def of(cls, listed: str) -> Cues:
        """Cues from a list with commas."""
        cues = [" ".join(_WORD.findall(cue)) for cue in listed.split(",")]
        return cls(
            frozenset(cue for cue in cues if " " not in cue), tuple(f" {cue} " for cue in cues if " " in cue)
        )

    def found_in(self, said: Said) -> bool:
        """True if any of them occurs."""
        return not self.words.isdisjoint(said.words) or any(phrase in said.plain for phrase in self.phrases)


_YES: Final = Cues.of(
    "yes, yeah, yep, sure, ok, okay, correct, confirmed, please do, go ahead, that is right, that's right"
)
_ASKS_FOR_CONSENT: Final = Cues.of(
    """confirm, confirmation, confirming, proceed, agree, yes, consent, approval, go ahead, shall i, shall
    we, should i, should we, may i, may we, do you want me, do you want us, would you like me, would you
    like us, is that ok, is this ok, is that okay, is this okay, is that right, is this right, is that
    correct, is this correct, is that all right, is this all right, is that fine, is this fine, are you
    ok, are you okay, are you sure, your ok, your okay"""
)
_NEEDS_NO_MARK: Final = Cues.of("confirm, confirmation, yes")
_CLOSES: Final = Cues.of("anything, else, more, further, other, additional, next")
_DONE: Final = Cues.of(
    """done, complete, completed, refunded, canceled, cancelled, exchanged, changed, updated, switched,
    moved, processed, issued, paid, arranged, charged, returned, redirected, success, successful,
    successfully, all set"""
)


def amounts(text: str) -> frozenset[int]:
    """The amounts of money of a text in cents; none where there are more than the policy's most.

    A number is an amount if it is marked as dollars or has exactly two decimals. A message that lists many amounts
    states none of them: otherwise whoever names every price would always have named the right one.
    """
    found = set()
    for match in _AMOUNT.finditer(text):
        part = match["part"] or ""
        if match["before"] or match["after"] or len(part) == 2:
            found.add(int(match["whole"].replace(",", "")) * 100 + int(part.ljust(2, "0")))
    return frozenset(found if len(found) <= MOST_AMOUNTS else ())


def codes(text: str) -> frozenset[str]:
    """The policy's reason codes in a text, in capitals as they must be written."""
    return frozenset(code for code in _CODE.findall(text) if code in CODES)


def says_yes(said: Said) -> bool:
    """True for a customer's reply that begins with agreeing."""
    first = said.plain[1:].partition(" ")[0]
    return first in _YES.words or said.plain.startswith(_YES.phrases)


def asks_for_consent(said: Said) -> bool:
    """True for a message that asks the customer to agree to something."""
    return _ASKS_FOR_CONSENT.found_in(said) and ("?" in said.text or _NEEDS_NO_MARK.found_in(said))


def asks(said: Said) -> bool:
    """True for a message with a question other than whether there is anything else."""
    before_marks = said.text.split("?")[:-1]
    return any(not _CLOSES.found_in(Said.of(_SENTENCE_END.split(part)[-1])) for part in before_marks)


def reports(said: Said) -> bool:
    """True for a message that says that something has been done, and asks nothing."""
    return _DONE.found_in(said) and not asks(said)
