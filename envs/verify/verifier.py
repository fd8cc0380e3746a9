"""Is the final answer of a reply right? The face of this package.

    verify(r"\\frac{1}{2}", r"So it is \\boxed{0.5}.")        # True
    await averify("42", r"\\boxed{9^{9^{9^9}}}")              # False, and soon

Plain numbers, words, and whatever else exact arithmetic can decide, or floating point can surely tell apart, are
decided here and now. The rest goes to worker processes, which have limits: an answer that passes them is wrong.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
from typing import Final

from turngym.envs.errors import GradingError, InfrastructureError, MissingExtra
from turngym.envs.verify.decide import answers_of, decide
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.final import reference_answer
from turngym.envs.verify.judges import Known, Quick
from turngym.envs.verify.pool import JobEnded, Workers
from turngym.envs.verify.reading import read
from turngym.envs.verify.tokens import MOST_CHARACTERS
from turngym.envs.verify.trees import CONSTANTS, FUNCTIONS, GREEK
from turngym.sandboxes import async_bridge

_TARGET: Final = "turngym.envs.verify.judging:judge"
_ATTEMPTS: Final = 2
_COMMAND: Final = re.compile(r"\\([A-Za-z]+)")
_UNFINISHED_TEXT: Final = """
int iint iiint oint sum prod lim limsup liminf det partial nabla gcd lcm max min sup inf bmod pmod mod mathrm
operatorname text mbox approx sim simeq cong"""
_UNFINISHED: Final = frozenset(_UNFINISHED_TEXT.split())
"""Commands for work that is still to be done, and for words: an answer with one of them is none."""
_OWN: Final = (
    frozenset(CONSTANTS)
    | frozenset(FUNCTIONS)
    | GREEK
    | {"frac", "dfrac", "sqrt", "left", "right", "cdot", "boxed"}
)
_QUICK: Final = Quick()


def verify(reference: str, reply: str) -> bool:
    """Whether the final answer of a reply is the reference.

    Args:
        reference: the right answer, in LaTeX or plainly; or a solution with its answer in a box or behind `####`.
        reply: what was said; `final_answers` says which part of it counts.

    Raises:
        GradingError: the reference cannot be read, or the verifier failed twice.
        MissingExtra: a worker is needed, and math-verify is not installed.
    """
    known, job = _quickly(reference, reply)
    return known if known is not None else async_bridge.run(_thoroughly(reference, job))


async def averify(reference: str, reply: str) -> bool:
    """`verify`, awaited; on any event loop."""
    known, job = _quickly(reference, reply)
    return known if known is not None else await _thoroughly(reference, job)


def close_workers() -> None:
    """End the worker processes; the next verification that needs them starts new ones."""
    if _workers is not None:
        _workers.close()


def _quickly(reference: str, reply: str) -> tuple[Known, dict[str, object]]:
    """What can be said without a worker, and the job for a worker otherwise."""
    text, answers = reference_answer(reference), answers_of(reply)
    job: dict[str, object] = {"reference": text, "answers": answers}
    try:
        own = read(text)
    except Unreadable:
        return None, job
    try:
        return decide(own, answers, _QUICK), job
    except Unreadable:
        return (None if all(_may_be_foreign(answer, text) for answer in answers) else False), job


def _may_be_foreign(answer: str, reference: str) -> bool:
    """Whether math-verify may know more of an answer: readable here, or with a command that is not known here."""
    try:
        read(answer)
    except Unreadable:
        if len(answer) > MOST_CHARACTERS:
            return False
        commands = set(_COMMAND.findall(answer))
        unfinished = commands & _UNFINISHED
        return bool(commands - _OWN) and unfinished <= set(_COMMAND.findall(reference))
    return True


async def _thoroughly(reference: str, job: dict[str, object]) -> bool:
    """What a worker says. A failure that is the answer's doing makes it wrong; any other is tried once more."""
    ended: InfrastructureError | None = None
    for _ in range(_ATTEMPTS):
        try:
            right: bool | None = await _pool().run(job)
        except JobEnded as failure:
            ended = failure
            if failure.how == "cost":
                break
        except InfrastructureError as failure:
            ended = failure
        else:
            if right is None:
                raise GradingError(f"the reference {_shown(reference)} cannot be read")
            return right
    if isinstance(ended, JobEnded) and ended.stage == "answer" and ended.how in ("cost", "memory", "crash"):
        return False
    raise GradingError(f"the answer to {_shown(reference)} cannot be verified: {ended}") from ended


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else text[:197] + "...")


_workers: Workers | None = None


def _pool() -> Workers:
    global _workers
    if _workers is None:
        if importlib.util.find_spec("math_verify") is None:
            raise MissingExtra('verifying formulas needs a library: pip install "turngym[math]"')
        _workers = Workers(_TARGET)
    return _workers


def _forget() -> None:
    """A forked child has workers of its own."""
    global _workers
    if _workers is not None:
        _workers.abandon()
        _workers = None


def _hang_up() -> None:
    if _workers is not None:
        _workers.hang_up()


os.register_at_fork(after_in_child=_forget)
atexit.register(_hang_up)
