"""Masking by selection."""

import torch

from turngym.trainer.losses.select import at_actions


def test_selects_before_the_formula_so_that_no_gradient_meets_a_nan() -> None:
    x = torch.tensor([1.0, torch.nan], requires_grad=True)
    is_action = torch.tensor([True, False])
    at_actions(x, is_action).exp().sum().backward()
    assert x.grad is not None
    assert x.grad[1] == 0
    assert x.grad[0].isfinite()
