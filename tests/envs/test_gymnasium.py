"""Citizenship: Gymnasium's makers, wrappers, checkers and vector environments take ours as they are."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

import turngym.envs as envs
from turngym.envs import assistant, user
from turngym.envs.builtin.calculator import Calculator

IDS = ["turngym/Calculator-v0", "turngym/GuessNumber-v0"]


@pytest.mark.parametrize("id", IDS)
def test_gymnasium_make_and_check_env(id):
    check_env(envs.make(id))
    wrapped = gymnasium.make(id)
    assert wrapped.unwrapped.spec.id == id
    assert gymnasium.make(f"turngym.envs:{id}", split="test").unwrapped.split == "test"
    assert gymnasium.make(wrapped.spec).unwrapped.id == id
    assert envs.spec(id).to_json()


def test_wrapped_episodes():
    env = RecordEpisodeStatistics(gymnasium.make("turngym/GuessNumber-v0"))
    env.reset(seed=0, options={"task": "0-15:7"})
    assert env.step("3")[0] == (user("higher"),)
    info = env.step("7")[4]
    assert info["episode"]["r"] == pytest.approx(0.9)
    assert info["episode"]["l"] == 2


def test_order_is_enforced_by_the_environment_itself():
    with pytest.raises(envs.errors.EpisodeOver, match="call reset first"):
        gymnasium.make("turngym/GuessNumber-v0").step("3")


def test_time_limit_truncates():
    env = TimeLimit(envs.make("turngym/Calculator-v0"), 2)
    env.reset(seed=0)
    call = env.unwrapped.action_space.tools[0].name
    for expected in (False, True):
        *_, terminated, truncated, _ = env.step(assistant(None, envs.ToolCall.of(call, "{}")))
        assert (terminated, truncated) == (False, expected)


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("autoreset", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
def test_vector_environments(mode, autoreset):
    kwargs = {"autoreset_mode": autoreset} | ({"shared_memory": False} if mode == "async" else {})
    vector = gymnasium.make_vec(
        "turngym/GuessNumber-v0", num_envs=2, vectorization_mode=mode, vector_kwargs=kwargs, split="train"
    )
    observations, infos = vector.reset(seed=[1, 2], options={"task": "0-15:7"})
    assert observations == ((user("Guess my number from 0 to 15."),),) * 2
    assert list(infos["task_id"]) == ["0-15:7"] * 2
    assert list(infos["anchor"]) == ["0-15"] * 2
    observations, rewards, terminated, truncated, infos = vector.step(("3", "7"))
    assert rewards.tolist() == [0.0, 1.0]
    assert terminated.tolist() == [False, True]
    assert not truncated.any()
    if autoreset is AutoresetMode.SAME_STEP:
        assert infos["final_obs"][1] == (user("correct"),)
        assert infos["final_info"]["metrics"]["guesses"][1] == 1.0
        assert observations == ((user("higher"),), (user("Guess my number from 0 to 15."),))
    else:
        assert observations == ((user("higher"),), (user("correct"),))
        observations, rewards, *_ = vector.step((assistant("7"), assistant("ignored")))
        assert observations == ((user("correct"),), (user("Guess my number from 0 to 15."),))
        assert rewards.tolist() == [0.9, 0.0]
    vector.close()


def test_vector_environments_of_tools():
    vector = gymnasium.make_vec("turngym/Calculator-v0", num_envs=2, vectorization_mode="sync")
    vector.reset(seed=0)
    vector.action_space.seed(0)
    for _ in range(20):
        _, rewards, *_ = vector.step(vector.action_space.sample())
        assert rewards.dtype == np.float64
    vector.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_workers_have_their_own_event_loop(async_echo):
    async_echo.reset(seed=0)  # the parent's loop runs before the fork
    cls = type(async_echo)
    vector = AsyncVectorEnv([cls, cls], shared_memory=False)
    vector.reset(seed=0, options={"task": "train-0"})
    assert vector.step(("red", "blue"))[1].tolist() == [1.0, 0.0]
    vector.close()


def test_spaces_are_the_environments_own():
    one, two = Calculator(), Calculator()
    assert one.action_space == two.action_space
    assert one.action_space is not two.action_space
