from __future__ import annotations

import math

import numpy as np
import pytest

from turngym.envs import Env, ListTasks, Task, user
from turngym.envs.errors import InvalidReward
from turngym.envs.figures import checked_figures, checked_metrics, checked_reward


@pytest.mark.parametrize("value", [0, True, -1e9, 1e9, np.float32(0.5), "0.25"])
def test_a_reward_is_any_number_of_a_sane_size(value):
    assert checked_reward(value, "e") == float(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.1e9, 1e308, 10**400, "much", None, ()])
def test_another_reward_is_refused_by_its_name(value):
    with pytest.raises(
        InvalidReward, match=r"e: the reward is .*, not a finite number between ±1e\+09: scale it"
    ):
        checked_reward(value, "e")


def test_a_figure_that_was_not_computed_is_left_out():
    assert checked_figures({"judge": math.nan, "calls": 3, "bytes": 1e15}, "e") == {
        "calls": 3.0,
        "bytes": 1e15,
    }
    assert checked_figures(None, "e") == checked_metrics({}, "e") == {}


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"bytes": 1.1e15}, "bytes is"),
        ({"judge": -math.inf}, "judge is -inf"),
        ({3: 1.0}, "a figure is called 3"),
        ({"judge": "good"}, "judge is 'good', which is no number"),
        ({"judge": 10**400}, "judge is 1000"),
    ],
)
def test_a_figure_that_would_spoil_a_mean_is_refused_by_its_name(figures, words):
    with pytest.raises(InvalidReward, match=f"e: {words}"):
        checked_figures(figures, "e")


@pytest.mark.parametrize("success", [5, -0.1, 1.0001])
def test_success_is_a_share(success):
    assert checked_metrics({"success": 0.5, "score": 5}, "e") == {"success": 0.5, "score": 5.0}
    with pytest.raises(InvalidReward, match=r"e: success is .*, not between 0 and 1: report another figure"):
        checked_metrics({"success": success}, "e")


@pytest.mark.parametrize(("reward", "metrics"), [(1e308, {}), (1.0, {"success": 5})])
def test_an_environment_says_so_at_once(reward, metrics):
    class Boaster(Env):
        tasks = ListTasks(train=[Task(id="t", prompt=(user("?"),))])

        def step(self, action):
            return (), reward, True, False, {"metrics": metrics}

    env = Boaster()
    env.reset(seed=0)
    with pytest.raises(InvalidReward, match="Boaster"):
        env.step("me")
