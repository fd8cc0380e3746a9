"""The Python face: short, lazy, and at home in a notebook whose loop already runs."""

from __future__ import annotations

import subprocess
import sys

import turngym


def test_rollout_by_name():
    trajectory = turngym.rollout("turngym/Calculator-v0", "expert", seed=3)
    assert trajectory.reward == 1.0
    assert trajectory.outcome.kind == "completed"


def test_rollout_leaves_an_environment_that_it_was_given_open():
    env = turngym.make("turngym/GuessNumber-v0")
    first = turngym.rollout(env, "expert", seed=1)
    second = turngym.rollout(env, "expert", seed=1)
    assert first.turns[0].action.message == second.turns[0].action.message
    env.close()


async def test_everything_works_inside_a_running_loop():
    assert turngym.rollout("turngym/Calculator-v0", "expert").reward == 1.0
    report = turngym.evaluate("turngym/Calculator-v0", "expert", tasks=10)
    assert report.success is not None
    assert report.success.mean == 1.0


def test_importing_turngym_is_instant_and_lazy():
    code = (
        "import sys, turngym; assert not {'gymnasium', 'torch'} & set(sys.modules); turngym.make; "
        "assert 'gymnasium' in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
