"""What a final message must look like, and what it is worth: the answer by value, the citations by F1."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

from turngym.envs.builtin.search.schema import Value

FORMAT: Final = "Answer: <the name or number>\nSources: <ids of the documents, separated by commas>"
"""How the model is told."""
MOST_SOURCES: Final = 100
"""Ids that a message may cite; with more it has no answer."""

_FORM: Final = re.compile(r"Answer:[ \t]*(\S[^\n]{0,199})\nSources:[ \t]*(d[0-9]+(?:,[ \t]*d[0-9]+)*)")
_NUMBER: Final = re.compile(r"[0-9]{1,3}(?:,[0-9]{3}){1,3}|[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Reply:
    """A final message, read."""

    answer: str
    """The name or number as it was written."""
    sources: frozenset[str]
    """The documents that it cites."""


def read_reply(text: str) -> Reply | None:
    """The answer and the sources of a message that is these two lines and nothing else; None for any other."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        return None
    sources = re.split(r",[ \t]*", match[2])
    return Reply(match[1].strip(), frozenset(sources)) if len(sources) <= MOST_SOURCES else None


def is_same(answer: str, target: Value) -> bool:
    """Whether an answer has the target's value: 12480 and 12,480 are one number, "ker  Stingel" and "Ker Stingel"
    one name."""
    if isinstance(target, int):
        return _NUMBER.fullmatch(answer) is not None and int(answer.replace(",", "")) == target
    return _name(answer) == _name(target)


def _name(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@dataclass(frozen=True, slots=True)
class Citations:
    """How well documents were cited."""

    precision: float
    """Share of the cited documents that are needed."""
    recall: float
    """Share of the needed documents that are cited."""

    @property
    def f1(self) -> float:
        """Their harmonic mean: 1 if exactly the needed documents are cited, and less with each that is not."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def citations(cited: frozenset[str], needed: frozenset[str]) -> Citations:
    """Compare what was cited with what was needed."""
    right = len(cited & needed)
    return Citations(right / len(cited) if cited else 0.0, right / len(needed))
