"""Policy losses: hand-computed values and gradients, plain loops, and the law of masking."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turngym.trainer.losses.policy import is_clipped, log_ratio, ppo_clip, reinforce

SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=50, deadline=None)


def plain_ppo(
    ratio: float, advantage: float, low: float, high: float, dual: float | None
) -> tuple[float, float]:
    """Loss of one token and its derivative with respect to the logprob, case by case."""
    cut = (advantage > 0 and ratio > 1 + high) or (advantage < 0 and ratio < 1 - low)
    if cut:
        return -advantage * (1 + high if ratio > 1 else 1 - low), 0.0
    if dual is not None and advantage < 0 and ratio > dual:
        return -advantage * dual, 0.0
    return -advantage * ratio, -advantage * ratio


def value_and_gradient(loss: Tensor, variable: Tensor) -> tuple[Tensor, Tensor]:
    (gradient,) = torch.autograd.grad(loss.sum(), variable)
    return loss.detach(), gradient


@given(
    SEEDS, st.sampled_from([0.0, 0.1, 0.2]), st.sampled_from([0.2, 0.28]), st.sampled_from([None, 1.5, 3.0])
)
@FEW
def test_ppo_clip_agrees_with_the_cases_written_out(
    seed: int, low: float, high: float, dual: float | None
) -> None:
    generator = torch.Generator().manual_seed(seed)
    old, advantages, step = torch.randn(3, 20, dtype=torch.float64, generator=generator)
    logprobs = (old + step).requires_grad_()
    acts = torch.ones(20, dtype=torch.bool)
    loss = ppo_clip(logprobs, old, advantages, acts, clip_low=low, clip_high=high, dual_clip=dual)
    value, gradient = value_and_gradient(loss, logprobs)
    cases = [
        plain_ppo(math.exp(d), a, low, high, dual)
        for d, a in zip(step.tolist(), advantages.tolist(), strict=True)
    ]
    torch.testing.assert_close(value, torch.tensor([v for v, _ in cases], dtype=torch.float64))
    torch.testing.assert_close(gradient, torch.tensor([g for _, g in cases], dtype=torch.float64))
    clipped = is_clipped(logprobs, old, advantages, acts, clip_low=low, clip_high=high)
    expected = ((advantages > 0) & (step.exp() > 1 + high)) | ((advantages < 0) & (step.exp() < 1 - low))
    assert torch.equal(clipped, expected)


@given(SEEDS, st.sampled_from([0.0, 0.2]), st.sampled_from([None, 3.0]))
@FEW
def test_on_policy_ppo_has_the_gradient_of_reinforce(seed: int, low: float, dual: float | None) -> None:
    generator = torch.Generator().manual_seed(seed)
    logprobs, advantages = torch.randn(2, 4, 5, dtype=torch.float64, generator=generator)
    is_action = torch.rand(4, 5, generator=generator) < 0.7
    logprobs.requires_grad_()
    ppo = ppo_clip(logprobs, logprobs, advantages, is_action, clip_low=low, clip_high=0.28, dual_clip=dual)
    _, gradient = value_and_gradient(ppo, logprobs)
    _, expected = value_and_gradient(reinforce(logprobs, advantages, is_action), logprobs)
    assert torch.equal(gradient, expected)
    assert torch.equal(expected, torch.where(is_action, -advantages, 0))


@pytest.mark.parametrize("junk", [1e30, torch.inf, torch.nan])
def test_law_03_junk_at_masked_positions_reaches_neither_value_nor_gradient(junk: float) -> None:
    is_action = torch.tensor([[True, False, True]])

    def loss_and_gradient(function, junk: float) -> tuple[Tensor, Tensor]:
        logprobs = torch.tensor([[-1.0, junk, -2.0]], requires_grad=True)
        old = torch.tensor([[-1.5, junk, -1.0]])
        advantages = torch.tensor([[2.0, junk, -1.0]])
        return value_and_gradient(function(logprobs, old, advantages), logprobs)

    for function in (
        lambda new, old, a: ppo_clip(new, old, a, is_action, clip_low=0.2, clip_high=0.2, dual_clip=3.0),
        lambda new, _, a: reinforce(new, a, is_action),
    ):
        value, gradient = loss_and_gradient(function, junk)
        assert torch.equal(value, loss_and_gradient(function, 0.0)[0])
        assert torch.equal(gradient, loss_and_gradient(function, 0.0)[1])
        assert value[0, 1] == 0
        assert gradient[0, 1] == 0


def test_log_ratio_is_clamped_so_that_the_ratio_stays_finite() -> None:
    acts = torch.ones(3, dtype=torch.bool)
    clamped = log_ratio(torch.tensor([0.0, -300.0, -1.0]), torch.tensor([-300.0, 0.0, -1.5]), acts)
    assert clamped.tolist() == [20, -20, 0.5]


def test_works_on_action_tokens_alone() -> None:
    """The trainer may hold one entry per action token instead of rows and positions."""
    flat = torch.tensor([-1.0, -2.0])
    loss = ppo_clip(
        flat, flat, torch.tensor([3.0, -4.0]), torch.tensor([True, True]), clip_low=0.2, clip_high=0.2
    )
    assert loss.tolist() == [-3, 4]
