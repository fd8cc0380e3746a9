"""Whose fault an exception is: the one table that maps errors to the outcome of a failed episode.

Only the agent's own failures are scored (law 10). Everything that broke under it is retried in a fresh
environment, then recorded as failed and left out of every mean.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal

from turngym.agents.errors import AgentError
from turngym.agents.types import Outcome, OutcomeCause
from turngym.envs.errors import InfrastructureError, InvalidAction

Side = Literal["env", "agent"]
"""Who had the word when the exception came."""

_CAUSES: Final[tuple[tuple[type[BaseException], OutcomeCause], ...]] = (
    (InvalidAction, "agent"),
    (InfrastructureError, "infrastructure"),
    (AgentError, "infrastructure"),  # engine, template, model: never the policy's doing
    (asyncio.CancelledError, "infrastructure"),  # not ours: a task or future under the episode was cancelled
)
_CAUSES_IN_AGENT: Final[tuple[tuple[type[BaseException], OutcomeCause], ...]] = (
    (MemoryError, "infrastructure"),
    (OSError, "infrastructure"),  # connections and files, timeouts included
)

RETRYABLE: Final[frozenset[OutcomeCause]] = frozenset({"infrastructure", "sandbox", "env_error"})
"""Failures that are worth a fresh environment."""


def cause_of(error: BaseException, side: Side) -> OutcomeCause:
    """The guilty party of an exception that came while `side` had the word.

    A class may name it itself in an attribute `outcome_cause` (sandbox errors do). Then the table decides;
    what it does not know is the fault of the side that raised it.
    """
    own: OutcomeCause | None = getattr(type(error), "outcome_cause", None)
    if own is not None:
        return own
    table = _CAUSES + _CAUSES_IN_AGENT if side == "agent" else _CAUSES
    for kind, cause in table:
        if isinstance(error, kind):
            return cause
    return "agent" if side == "agent" else "env_error"


def failure(error: BaseException, side: Side) -> Outcome:
    """The outcome of an episode that ended in an exception, with the error in one line."""
    first_line = next(iter(str(error).splitlines()), "")
    text = f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
    return Outcome("failed", cause_of(error, side), text[:500])
