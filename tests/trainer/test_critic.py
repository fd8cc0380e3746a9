from __future__ import annotations

import pytest
import torch

from turngym.trainer.critic import Critic
from turngym.trainer.forward import Rows, hidden_states, trunk_of

IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 0]])
ROWS = Rows(
    IDS,
    torch.tensor([[True] * 5, [True] * 4 + [False]]),
    torch.tensor([[0, 0, 1, 1, 0], [0, 1, 0, 0, 0]]).bool(),
)


def _read(model, critic, final):
    return critic.read(hidden_states(trunk_of(model), ROWS), ROWS, torch.tensor(final))


@pytest.mark.parametrize("trunk", ["shared", "separate"])
def test_a_new_critic_predicts_0_everywhere(model, trunk):
    reading = _read(model, Critic.of(model, trunk), [4, 3])
    assert not reading.values.any()
    assert not reading.final.any()


def test_values_are_read_where_the_tokens_logits_come_from_and_the_final_one_after_everything(model):
    critic = Critic.of(model, "shared")
    torch.nn.init.ones_(critic.head.weight)
    reading = _read(model, critic, [-1, 3])
    value = hidden_states(trunk_of(model), ROWS).sum(-1)  # what this head makes of every position
    torch.testing.assert_close(reading.values[0, 2:4], value[0, 1:3])
    torch.testing.assert_close(reading.values[1, 1], value[1, 0])
    assert (reading.values[~ROWS.is_action] == 0).all()
    torch.testing.assert_close(reading.final, torch.stack([value.new_zeros(()), value[1, 3]]))


def test_a_separate_trunk_learns_apart_from_the_policy(model):
    critic = Critic.of(model, "separate")
    torch.nn.init.ones_(critic.head.weight)
    _read(model, critic, [4, -1]).values.sum().backward()
    assert all(p.grad is None for p in model.parameters())
    # The embedding of a token that no read position has seen gets no gradient, but the trunk as a whole does.
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in critic.trunk.parameters())


def test_a_shared_trunk_learns_with_the_critic(model):
    critic = Critic.of(model, "shared")
    torch.nn.init.ones_(critic.head.weight)
    _read(model, critic, [4, -1]).values.sum().backward()
    assert any(p.grad is not None and p.grad.abs().sum() > 0 for p in model.model.parameters())


def test_the_head_stays_wide_under_a_narrow_policy(build_model):
    model = build_model(dtype=torch.bfloat16)
    critic = Critic.of(model, "separate")
    assert critic.head.weight.dtype == torch.float32
    assert _read(model, critic, [4, -1]).values.dtype == torch.float32
