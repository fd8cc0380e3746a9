from __future__ import annotations

import math

import pytest

from turngym.trainer.errors import HealthError
from turngym.trainer.health import HealthBounds, check_health

SOUND = {"policy_loss": 0.1, "entropy": 0.5, "grad_norm": 1.0, "logprob_gap_mean": 1e-5, "failed_share": 0.0}


def test_a_sound_step_passes():
    check_health(HealthBounds(), 3, SOUND)
    check_health(HealthBounds(), 3, {})


@pytest.mark.parametrize("name", ["policy_loss", "value_loss", "grad_norm", "entropy"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_figure_that_is_not_finite_stops_the_run(name, value):
    with pytest.raises(HealthError, match=rf"step 7: {name} is (nan|inf).*optim\.lr"):
        check_health(HealthBounds(), 7, SOUND | {name: value})


def test_collapsed_entropy_stops_the_run():
    bounds = HealthBounds(min_entropy=0.01)
    with pytest.raises(
        HealthError, match=r"step 7: entropy 0\.002 nats is below health\.min_entropy = 0\.01"
    ):
        check_health(bounds, 7, SOUND | {"entropy": 0.002})
    check_health(HealthBounds(min_entropy=0.0), 7, SOUND | {"entropy": 0.0})


def test_engine_and_trainer_that_disagree_stop_the_run():
    with pytest.raises(HealthError, match=r"step 7: .*0\.5 nats.*largest 3.*max_logprob_gap"):
        check_health(HealthBounds(), 7, SOUND | {"logprob_gap_mean": 0.5, "logprob_gap_max": 3.0})


def test_too_many_failures_stop_the_run():
    with pytest.raises(HealthError, match="75% of the episodes failed"):
        check_health(HealthBounds(), 7, SOUND | {"failed_share": 0.75})
