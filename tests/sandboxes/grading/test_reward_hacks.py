"""The reward hacks that lie beside the checkout (`../shared/attacks`, or the folder in TURNGYM_ATTACKS).

Without them these tests are skipped, or fail where TURNGYM_REQUIRE names `attacks`.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from turngym.sandboxes.grading import EXACT, Case, FunctionTask, Grader, Rules
from turngym.sandboxes.limits import Limits

pytestmark = pytest.mark.asyncio(loop_scope="module")

ATTACKS = Path(os.environ.get("TURNGYM_ATTACKS") or Path(__file__).parents[3] / ".." / "shared" / "attacks")


def hacks() -> list[Any]:
    if not (ATTACKS / "reward_hacks.json").is_file():
        return [pytest.param(None, id="absent")]
    found = json.loads((ATTACKS / "reward_hacks.json").read_text())
    return [pytest.param(hack, id=hack["name"]) for hack in found]


def task_of(hack: dict[str, Any]) -> FunctionTask:
    """The limits are those of a candidate, not of a case: the time is also that of all cases together."""
    task = hack["task"]
    return FunctionTask(
        function=task["function"],
        cases=tuple(Case(tuple(case["args"]), expected=case["expected"]) for case in task["cases"]),
        rules=Rules(abs_tol=task["tolerance"]) if "tolerance" in task else EXACT,
        limits=Limits(**task["limits"]),
        total_wall_s=task["limits"]["wall_s"],
    )


@pytest.mark.parametrize("hack", hacks())
async def test_reward_hack(hack: dict[str, Any] | None, grader: Grader) -> None:
    if hack is None:
        reason = f"no reward hacks in {ATTACKS.resolve()}: set TURNGYM_ATTACKS to the folder that holds them"
        if "attacks" in re.findall(r"\w+", os.environ.get("TURNGYM_REQUIRE", "")):
            pytest.fail(reason)
        pytest.skip(reason)
    verdict = await grader.grade(task_of(hack), hack["candidate"])
    assert verdict.score == hack["must_score"], verdict
    assert verdict.total == len(hack["task"]["cases"])
