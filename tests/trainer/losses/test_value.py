"""The critic's loss."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.trainer.losses.value import is_value_clipped, value_loss


def plain(value: float, old: float, target: float, clip: float | None) -> tuple[float, float]:
    """Loss of one prediction and its derivative, case by case."""
    loss, slope = 0.5 * (value - target) ** 2, value - target
    if clip is None or abs(value - old) <= clip:
        return loss, slope
    kept = old + clip if value > old else old - clip
    clipped = 0.5 * (kept - target) ** 2
    return (clipped, 0.0) if clipped > loss else (loss, slope)


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 0.1, 0.5]))
@settings(max_examples=50, deadline=None)
def test_agrees_with_the_cases_written_out(seed: int, clip: float | None) -> None:
    generator = torch.Generator().manual_seed(seed)
    values, old, returns = torch.randn(3, 20, dtype=torch.float64, generator=generator)
    values.requires_grad_()
    acts = torch.ones(20, dtype=torch.bool)
    loss = value_loss(values, old, returns, acts, clip=clip)
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    triples = zip(values.tolist(), old.tolist(), returns.tolist(), strict=True)
    cases = torch.tensor([plain(v, o, r, clip) for v, o, r in triples], dtype=torch.float64)
    torch.testing.assert_close(loss.detach(), cases[:, 0])
    torch.testing.assert_close(gradient, cases[:, 1])
    if clip is not None:
        larger = cases[:, 0] > 0.5 * (values.detach() - returns).square() + 1e-12
        assert torch.equal(is_value_clipped(values, old, returns, acts, clip=clip), larger)


@pytest.mark.parametrize("junk", [1e30, torch.inf, torch.nan])
@pytest.mark.parametrize("clip", [None, 0.2])
def test_law_03_junk_at_masked_positions_reaches_neither_value_nor_gradient(
    junk: float, clip: float | None
) -> None:
    is_action = torch.tensor([True, False])
    values = torch.tensor([1.0, junk], requires_grad=True)
    loss = value_loss(values, torch.tensor([0.9, junk]), torch.tensor([3.0, junk]), is_action, clip=clip)
    (gradient,) = torch.autograd.grad(loss.sum(), values)
    assert loss.tolist() == [2, 0]
    assert gradient.tolist() == [-2, 0]


def test_the_plain_loss_does_not_read_old_values() -> None:
    values, acts = torch.tensor([1.0]), torch.tensor([True])
    assert value_loss(values, torch.tensor([torch.nan]), torch.tensor([3.0]), acts).item() == 2
