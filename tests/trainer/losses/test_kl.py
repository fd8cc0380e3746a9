"""KL estimators: values, gradients, and what they are known for in expectation, summed exactly."""

import pytest
import torch
from torch import Tensor

from turngym.trainer.losses.kl import KL_ESTIMATORS

WORDS = 5


@pytest.fixture
def policy() -> Tensor:
    return torch.randn(
        WORDS, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()


@pytest.fixture
def reference() -> Tensor:
    logits = torch.randn(WORDS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return logits.log_softmax(dim=0)


def expected_gradient(name: str, logits: Tensor, reference: Tensor) -> Tensor:
    """Exact expectation, under the policy, of the gradient of the estimator used as a loss."""
    logprobs = logits.log_softmax(dim=0)
    everything = torch.ones(WORDS, dtype=torch.bool)
    per_token = KL_ESTIMATORS[name](logprobs, reference, everything)
    (gradient,) = torch.autograd.grad((logprobs.exp().detach() * per_token).sum(), logits)
    return gradient


def kl(logits: Tensor, reference: Tensor) -> Tensor:
    logprobs = logits.log_softmax(dim=0)
    return (logprobs.exp() * (logprobs - reference)).sum()


@pytest.mark.parametrize("name", ["k1", "k3", "k1+", "k3+"])
def test_values_are_unbiased(name: str, policy: Tensor, reference: Tensor) -> None:
    logprobs = policy.log_softmax(dim=0).detach()
    estimates = KL_ESTIMATORS[name](logprobs, reference, torch.ones(WORDS, dtype=torch.bool))
    torch.testing.assert_close((logprobs.exp() * estimates).sum(), kl(policy, reference).detach())


@pytest.mark.parametrize("name", ["k2", "k1+", "k3+"])
def test_as_losses_these_have_the_gradient_of_the_kl(name: str, policy: Tensor, reference: Tensor) -> None:
    (exact,) = torch.autograd.grad(kl(policy, reference), policy)
    torch.testing.assert_close(expected_gradient(name, policy, reference), exact)


def test_k1_as_a_loss_has_no_gradient_and_k3_has_that_of_the_forward_kl(
    policy: Tensor, reference: Tensor
) -> None:
    torch.testing.assert_close(expected_gradient("k1", policy, reference), torch.zeros_like(reference))
    forward = (reference.exp() * (reference - policy.log_softmax(dim=0))).sum()
    (exact,) = torch.autograd.grad(forward, policy)
    torch.testing.assert_close(expected_gradient("k3", policy, reference), exact)


def test_hand_case() -> None:
    new, ref, acts = torch.tensor([-1.0]), torch.tensor([-3.0]), torch.tensor([True])
    values = {name: estimate(new, ref, acts).item() for name, estimate in KL_ESTIMATORS.items()}
    k3 = pytest.approx(torch.tensor(-2.0).exp().item() + 1)
    assert values == {"k1": 2, "k2": 2, "k3": k3, "k1+": 2, "k3+": k3}


@pytest.mark.parametrize("name", KL_ESTIMATORS)
@pytest.mark.parametrize("junk", [torch.inf, torch.nan])
def test_law_03_junk_at_masked_positions_reaches_neither_value_nor_gradient(name: str, junk: float) -> None:
    new = torch.tensor([-1.0, junk], requires_grad=True)
    estimate = KL_ESTIMATORS[name](new, torch.tensor([-2.0, junk]), torch.tensor([True, False]))
    (gradient,) = torch.autograd.grad(estimate.sum(), new)
    assert estimate[1] == 0
    assert gradient[1] == 0
    assert gradient.isfinite().all()


@pytest.mark.parametrize("difference", [-1000.0, 1000.0])
@pytest.mark.parametrize("name", KL_ESTIMATORS)
def test_stays_finite_far_from_the_reference(name: str, difference: float) -> None:
    new = torch.tensor([difference], requires_grad=True)
    estimate = KL_ESTIMATORS[name](new, torch.tensor([0.0]), torch.tensor([True]))
    (gradient,) = torch.autograd.grad(estimate.sum(), new)
    assert estimate.isfinite().all()
    assert gradient.isfinite().all()
