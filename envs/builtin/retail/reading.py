"""What a text says, read by rules: which words, which amounts of money, which reason codes, is it a question.

Everything that is graded is compared by whole tokens and by value: `$1,045.9`, `1045.90` and `1,045.90 USD` are the
same amount, and none of them is in `21045.90`.
"""

from __future__ import annotations

import re
from typing import Final

from turngym.envs.builtin.retail.policy import CODES, MOST_AMOUNTS

_WORD = re.compile(r"[A-Za-z0-9@._+-]+")
_AMOUNT = re.compile(
    r"(?<![\w.,$])(?:(?P<before>\$|USD)[ ]?)?(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,9})(?:\.(?P<part>[0-9]{1,2}))?"
    r"(?![\w%]|[.,][0-9])(?P<after>[ ]?(?:USD|dollars?)\b)?"
)
_CODE = re.compile(r"(?<![A-Za-z0-9-])[A-Z]+(?:-[A-Z]+)+(?![A-Za-z0-9-])")
_YES = re.compile(
    r"\W*(?:yes|yeah|yep|sure|ok|okay|correct|confirmed|please do|go ahead|that is right|that's right)\b",
    re.I,
)
_ASKS_FOR_CONSENT = re.compile(
    r"\b(?:confirm\w*|proceed|go ahead|(?:shall|should|may) (?:i|we)|do you (?:agree|want (?:me|us))"
    r"|would you like (?:me|us)|is (?:that|this|it) (?:ok|okay|right|all right|alright|correct|fine)"
    r"|are you (?:ok|okay|sure)|agree|yes|your (?:ok|okay|consent|approval))\b",
    re.I,
)
_CLOSING_QUESTION = re.compile(
    r"[^.!?\n]*\b(?:anything|else|more|further|other|additional|next)\b[^.!?\n]*\?", re.I
)
_DONE = re.compile(
    r"\b(?:done|complete|completed|refunded|cancell?ed|exchanged|changed|updated|switched|moved|processed|issued|paid"
    r"|arranged|charged|returned|redirected|all set|success|successful|successfully)\b",
    re.I,
)
LONGEST: Final = 20_000
"""Characters of a message that are read; nobody listens to more."""


def words(text: str) -> frozenset[str]:
    """The words of a text in lower case, without the punctuation around them."""
    return frozenset(word.strip("._-+").lower() for word in _WORD.findall(text[:LONGEST]))


def amounts(text: str) -> frozenset[int]:
    """The amounts of money of a text in cents; none where there are more than the policy's most.

    A number is an amount if it is marked as dollars or has exactly two decimals. A message that lists many amounts
    states none of them: otherwise whoever names every price would always have named the right one.
    """
    found = set()
    for match in _AMOUNT.finditer(text[:LONGEST]):
        part = match["part"] or ""
        if match["before"] or match["after"] or len(part) == 2:
            found.add(int(match["whole"].replace(",", "")) * 100 + int(part.ljust(2, "0")))
    return frozenset(found if len(found) <= MOST_AMOUNTS else ())


def codes(text: str) -> frozenset[str]:
    """The policy's reason codes in a text, in capitals as they must be written."""
    return frozenset(code for code in _CODE.findall(text[:LONGEST]) if code in CODES)


def says_yes(text: str) -> bool:
    """True for a customer's reply that agrees."""
    return _YES.match(text) is not None


def asks_for_consent(text: str) -> bool:
    """True for a message that asks the customer to agree to something, with or without a question mark."""
    text = text[:LONGEST]
    cue = _ASKS_FOR_CONSENT.search(text)
    return cue is not None and ("?" in text or cue[0].lower().startswith(("confirm", "yes")))


def asks(text: str) -> bool:
    """True for a message with a question other than whether there is anything else."""
    return "?" in _CLOSING_QUESTION.sub("", text[:LONGEST])


def reports(text: str) -> bool:
    """True for a message that says that something has been done, and asks nothing."""
    return _DONE.search(text[:LONGEST]) is not None and not asks(text)
