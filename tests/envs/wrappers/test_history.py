from __future__ import annotations

import pytest
from gymnasium.wrappers import TimeLimit

import turngym
from turngym.envs import assistant, user
from turngym.envs.errors import ContractError
from turngym.envs.wrappers import TurnLimit, WholeConversation

from .small import Sync


def test_observations_are_the_whole_conversation():
    env = WholeConversation(Sync())
    for _ in range(2):
        opening, _ = env.reset(seed=0, options={"task": "train-0"})
        assert opening == (user("Say red"),)
        first = env.step("x")[0]
        assert first[:2] == (user("Say red"), assistant("x"))
        assert len(first) == 3
        second = env.step({"role": "assistant", "content": "red"})[0]
        assert second[:4] == (*first, assistant("red"))
        assert list(second) == env.unwrapped.history


def test_rollouts_refuse_it_wherever_it_stands():
    for wrapped in (WholeConversation(Sync()), TimeLimit(TurnLimit(WholeConversation(Sync()), 3), 9)):
        with pytest.raises(ContractError, match="take the wrapper WholeConversation off"):
            turngym.rollout(wrapped, "null")
