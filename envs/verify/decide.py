"""Is a reply right? The reply's final answer against a reference, as far as a judge of formulas can tell.

The same code runs twice: here with the quick judge, and, for what that leaves open, in a worker process with a thorough
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turngym.envs.verify.answers import Answer, Several
from turngym.envs.verify.compare import same
from turngym.envs.verify.final import final_answers
from turngym.envs.verify.judges import Judge, Known, every, some
from turngym.envs.verify.reading import read

_MOST_ANSWERS: Final = 16


def answers_of(reply: str) -> tuple[str, ...]:
    """The final answers of a reply, each once; none if there are too many to mean anything."""
    found = tuple(dict.fromkeys(final_answers(reply)))
    return found if len(found) <= _MOST_ANSWERS else ()


def decide(reference: Answer, texts: Sequence[str], judge: Judge) -> Known:
    """Whether final answers are right: each of them is the reference, or all together are, as a list.

    Raises:
        Unreadable: one of them cannot be read.
    """
    if not texts:
        return False
    answers = [read(text) for text in texts]
    each = every(same(reference, answer, judge) for answer in answers)
    if len(answers) == 1:
        return each
    items = tuple(item for one in answers for item in (one.items if isinstance(one, Several) else (one,)))
    return some((each, same(reference, Several(items), judge)))
