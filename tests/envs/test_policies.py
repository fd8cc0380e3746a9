from __future__ import annotations

import numpy as np

from turngym.envs import ActionSpace
from turngym.envs.builtin.calculator import Calculator
from turngym.envs.policies import default_policies


def test_null_says_nothing_and_random_says_anything():
    env = Calculator()
    env.reset(seed=0)
    policies = default_policies(env.action_space)
    rng = np.random.default_rng(0)
    assert policies["null"](env.task, env.history, rng).text == ""
    replies = [policies["random"](env.task, env.history, rng) for _ in range(40)]
    assert any(reply.tool_calls for reply in replies)
    assert any(reply.text for reply in replies)


def test_random_is_a_function_of_its_generator():
    random_policy = default_policies(ActionSpace(choices=["1", "2", "3"]))["random"]
    task = Calculator().tasks.at("train", 0)
    first, second = (
        [random_policy(task, (), rng) for _ in range(9)] for rng in map(np.random.default_rng, (4, 4))
    )
    assert first == second
