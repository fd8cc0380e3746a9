"""Discounted reward-to-go."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.trainer.credit.gae import gae
from turngym.trainer.credit.returns import reward_to_go

DISCOUNTS = st.sampled_from([0.0, 0.5, 0.9, 1.0])


@pytest.mark.parametrize("junk", [0.0, 9.0, torch.nan])
def test_published_case_the_running_return_survives_environment_tokens(junk: float) -> None:
    returns = reward_to_go(
        torch.tensor([[0.0, junk, 1.0]]), torch.tensor([[True, False, True]]), torch.tensor([[0, 0, 0]]),
        gamma_token=0.5, gamma_turn=0.5,
    )  # fmt: skip
    assert returns.tolist() == [[0.5, 0.0, 1.0]]


def test_hand_case_of_two_turns() -> None:
    returns = reward_to_go(
        torch.tensor([[0.0, 2.0, 0.0, 4.0]]), torch.tensor([[True] * 4]), torch.tensor([[0, 0, 1, 1]]),
        gamma_token=0.5, gamma_turn=0.25,
    )  # fmt: skip
    assert returns.tolist() == [[1.25, 2.5, 2.0, 4.0]]


@given(st.integers(0, 2**32 - 1), st.integers(0, 10), DISCOUNTS, DISCOUNTS)
@settings(max_examples=50, deadline=None)
def test_is_gae_with_a_critic_that_says_0_and_lam_1(
    seed: int, width: int, gamma_token: float, gamma_turn: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(3, width, dtype=torch.float64, generator=generator)
    is_action = torch.rand(3, width, generator=generator) < 0.7
    turn = torch.randint(0, 2, (3, width), generator=generator).cumsum(dim=1)
    returns = reward_to_go(rewards, is_action, turn, gamma_token=gamma_token, gamma_turn=gamma_turn)
    advantages = gae(
        rewards, torch.zeros_like(rewards), is_action, turn, rewards.new_zeros(3), turn.new_zeros(3),
        gamma_token=gamma_token, gamma_turn=gamma_turn, lam_token=1.0, lam_turn=1.0,
    )  # fmt: skip
    torch.testing.assert_close(returns, advantages)
