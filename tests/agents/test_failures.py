"""The one table of guilty parties."""

from __future__ import annotations

import pytest

from turngym.agents.errors import EngineError
from turngym.agents.failures import RETRYABLE, Side, cause_of, failure
from turngym.agents.types import Outcome
from turngym.envs.errors import EpisodeOver, GradingError, InvalidAction, InvalidReward


class SandboxDied(RuntimeError):
    outcome_cause = "sandbox"


@pytest.mark.parametrize(
    ("error", "side", "cause"),
    [
        (InvalidAction("x"), "env", "agent"),
        (InvalidReward("x"), "env", "env_error"),
        (EpisodeOver("x"), "env", "env_error"),
        (OSError("x"), "env", "env_error"),
        (OSError("x"), "agent", "infrastructure"),
        (GradingError("x"), "env", "infrastructure"),
        (EngineError("x"), "env", "infrastructure"),
        (SandboxDied("x"), "env", "sandbox"),
        (SandboxDied("x"), "agent", "sandbox"),
        (ValueError("x"), "env", "env_error"),
        (ValueError("x"), "agent", "agent"),
    ],
)
def test_the_guilty_party(error: Exception, side: Side, cause: str) -> None:
    assert cause_of(error, side) == cause
    assert (cause in RETRYABLE) == (not failure(error, side).scored)


def test_an_error_is_told_in_one_short_line() -> None:
    assert failure(ValueError("first\nsecond"), "env") == Outcome("failed", "env_error", "ValueError: first")
    assert failure(ValueError(), "env").error == "ValueError"
    assert len(failure(ValueError("x" * 9999), "env").error or "") == 500
