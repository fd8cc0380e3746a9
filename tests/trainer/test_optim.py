from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from turngym.trainer.optim import Optimiser, learning_rate, step_together


def test_schedules_by_hand():
    def rates(schedule):
        return [learning_rate(u, lr=1.0, schedule=schedule, warmup=2, total=6) for u in range(8)]

    assert rates("constant") == pytest.approx([1 / 3, 2 / 3, 1, 1, 1, 1, 1, 1])
    assert rates("linear") == pytest.approx([1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25, 0, 0])
    half = 0.5 * (1 + math.cos(math.pi / 4))
    assert rates("cosine")[2:7] == pytest.approx([1, half, 0.5, 1 - half, 0])


def _layer(dtype=torch.float32):
    layer = nn.Linear(3, 2).to(dtype)
    with torch.no_grad():
        for p in layer.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    return layer


def _step(layer, optimiser, scale=1.0):
    (layer(torch.ones(4, 3, dtype=layer.weight.dtype)).square().sum() * scale).backward()
    return step_together([optimiser])


def test_a_step_is_adamws_on_the_clipped_gradient():
    layer, plain = _layer(), _layer()
    optimiser = Optimiser(layer.named_parameters(), lr=0.1, max_grad_norm=0.5, weight_decay=0.1)
    adam = torch.optim.AdamW(
        [{"params": [plain.weight], "weight_decay": 0.1}, {"params": [plain.bias], "weight_decay": 0.0}],
        lr=0.1,
    )
    for _ in range(3):
        norm = _step(layer, optimiser)
        plain(torch.ones(4, 3)).square().sum().backward()
        expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.5)
        adam.step()
        adam.zero_grad()
        assert norm == pytest.approx(float(expected))
        torch.testing.assert_close(layer.weight, plain.weight)
        torch.testing.assert_close(layer.bias, plain.bias)
    assert layer.weight.grad is None


def test_a_gradient_that_is_not_finite_is_not_applied():
    layer = _layer()
    optimiser = Optimiser(layer.named_parameters(), lr=0.1)
    before = layer.weight.clone()
    assert math.isinf(_step(layer, optimiser, scale=1e38)) or math.isnan(_step(layer, optimiser, scale=1e38))
    assert torch.equal(layer.weight, before)
    assert optimiser.updates == 0
    assert layer.weight.grad is None


def test_small_steps_survive_in_bfloat16():
    # In bfloat16 alone, 1 + 1e-4 is 1: a hundred such steps would change nothing.
    layer = _layer(torch.bfloat16)
    optimiser = Optimiser(layer.named_parameters(), lr=1e-4)
    before = layer.weight.clone()
    for _ in range(100):
        _step(layer, optimiser)
    assert (layer.weight != before).any()


def test_law_07_many_small_gradients_in_bfloat16_add_up():
    # In bfloat16 a sum of equal parts stops growing once a part is less than half of its last digit.
    layer = _layer(torch.bfloat16)
    optimiser = Optimiser(layer.named_parameters(), lr=0.1)
    for _ in range(1024):
        (layer.bias.sum() / 1024).backward()
        optimiser.collect()
    assert optimiser.gradient_norm() == pytest.approx(math.sqrt(2.0))


def test_steps_are_taken_together_or_not_at_all():
    sound, broken = _layer(), _layer()
    optimisers = [Optimiser(layer.named_parameters(), lr=0.1) for layer in (sound, broken)]
    before = sound.weight.clone()
    sound.weight.sum().backward()
    (broken.weight.sum() * math.nan).backward()
    assert math.isnan(step_together(optimisers))
    assert torch.equal(sound.weight, before)
    assert [optimiser.updates for optimiser in optimisers] == [0, 0]
    sound.weight.sum().backward()
    broken.bias.sum().backward()
    assert step_together(optimisers) == pytest.approx(math.sqrt(6 + 2))
    assert not torch.equal(sound.weight, before)


def test_masters_are_taken_over_with_all_their_digits():
    layer = _layer(torch.bfloat16)
    first = Optimiser(layer.named_parameters(), lr=1e-4)
    for _ in range(5):
        _step(layer, first)
    second = Optimiser(layer.named_parameters(), lr=1e-4)
    second.continue_from(first)
    masters, taken = first.state_dict()["masters"], second.state_dict()["masters"]
    assert masters.keys() == taken.keys() == {"weight", "bias"}
    assert all(torch.equal(value, taken[name]) for name, value in masters.items())
    assert not torch.equal(taken["weight"], layer.weight.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_resumed_optimiser_continues_with_the_same_numbers(dtype):
    def build(layer):
        return Optimiser(layer.named_parameters(), lr=0.01, schedule="cosine", warmup=2, total=10)

    layer = _layer(dtype)
    optimiser = build(layer)
    for _ in range(3):
        _step(layer, optimiser)
    weights = {name: p.clone() for name, p in layer.state_dict().items()}
    state = torch.load(_saved(optimiser.state_dict()), weights_only=True)
    for _ in range(3):
        _step(layer, optimiser)

    resumed = _layer(dtype)
    resumed.load_state_dict(weights)
    again = build(resumed)
    again.load_state_dict(state)
    assert again.updates == 3
    for _ in range(3):
        _step(resumed, again)
    assert again.lr == optimiser.lr
    assert torch.equal(resumed.weight, layer.weight)


def _saved(state):
    import io

    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return buffer


def test_a_state_of_other_parameters_is_refused():
    state = Optimiser(nn.Linear(2, 2, bias=False).named_parameters(), lr=0.1).state_dict()
    with pytest.raises(ValueError, match="other parameters"):
        Optimiser(_layer().named_parameters(), lr=0.1).load_state_dict(state)


def test_frozen_parameters_are_left_alone():
    layer = _layer()
    layer.bias.requires_grad_(False)
    optimiser = Optimiser(layer.named_parameters(), lr=0.1, weight_decay=0.5)
    before = layer.bias.clone()
    _step(layer, optimiser)
    assert torch.equal(layer.bias, before)
