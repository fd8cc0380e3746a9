"""What a worker does: judge a reply's final answers thoroughly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turngym.envs.verify.decide import decide
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.foreign import read_foreign, same_foreign
from turngym.envs.verify.precise import Precise
from turngym.envs.verify.reading import read
from turngym.envs.verify.spelling import read_opaque


def judge(job: dict[str, Any], say: Callable[[str], None]) -> bool | None:
    """Whether the answers of a job are right; None if its reference cannot be read.

    Args:
        job: "reference" and "answers".
        say: announces that the reference has been read, and that what comes is the answers' fault.
    """
    reference, answers = job["reference"], job["answers"]
    try:
        own = read(reference)
    except Unreadable:
        own = None
    if own is not None:
        say("answer")
        try:
            return bool(decide(own, answers, Precise()))
        except Unreadable:
            pass
    foreign = read_foreign(reference)
    if foreign is None:
        return False if own is not None else _opaquely(reference, answers)
    say("answer")
    others = [read_foreign(answer) for answer in answers]
    return bool(others) and all(other is not None and same_foreign(foreign, other) for other in others)


def _opaquely(reference: str, answers: list[str]) -> bool | None:
    spelling = read_opaque(reference)
    if spelling is None:
        return None
    return bool(answers) and all(read_opaque(answer) == spelling for answer in answers)
