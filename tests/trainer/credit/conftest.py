"""Batches written down by hand, for the tests of credit."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from turngym.trainer.batch import Batch


def _turns(is_action: Tensor) -> Tensor:
    """A new turn begins where a run of action tokens begins."""
    before = torch.nn.functional.pad(is_action[:, :-1].long(), (1, 0))
    return (is_action.long() * (1 - before)).cumsum(dim=1).sub(1).clamp(min=0)


@pytest.fixture(scope="session")
def batch_of() -> Callable[..., Batch]:
    """A batch from the fields that a test is about; by default each row is a terminated episode."""

    def build(rewards: Tensor, is_action: Tensor, **fields: Tensor) -> Batch:
        rows = len(rewards)
        episode = fields.pop("episode", torch.arange(rows))
        episodes = int(episode.max()) + 1
        facts = {
            "ids": torch.zeros_like(is_action, dtype=torch.long),
            "is_real": torch.ones_like(is_action),
            "is_action": is_action,
            "behaviour_logprobs": torch.zeros_like(rewards),
            "rewards": rewards,
            "turn": _turns(is_action),
            "policy_version": torch.zeros_like(is_action, dtype=torch.long),
            "episode": episode,
            "segment": torch.zeros(rows, dtype=torch.long),
            "terminated": torch.ones(episodes, dtype=torch.bool),
            "truncated": torch.zeros(episodes, dtype=torch.bool),
            "group": torch.zeros(episodes, dtype=torch.long),
            "anchor": torch.full_like(is_action, -1, dtype=torch.long),
            "reward_components": rewards.new_zeros(episodes, 0),
            "bootstrap_row": torch.full((episodes,), -1),
            "bootstrap_position": torch.full((episodes,), -1),
            "bootstrap_turn": torch.full((episodes,), -1),
        }
        unknown = fields.keys() - facts.keys()
        assert not unknown, f"a batch has no {unknown}"
        return Batch(**(facts | fields), component_names=())

    return build
