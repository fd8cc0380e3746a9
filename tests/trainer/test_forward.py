from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from turngym.trainer.forward import (
    Rows,
    UnsupportedModel,
    check_model,
    disable_dropout,
    hidden_states,
    read_policy,
    recomputed_trunk,
    trunk_of,
)


def _rows(seed: int = 0) -> Rows:
    rng = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([9, 4, 7, 2])
    is_real = torch.arange(9)[None] < lengths[:, None]
    is_action = is_real & (torch.rand((4, 9), generator=rng) < 0.5)
    is_action[:, 0] = False
    is_action[0, 8] = True
    return Rows(torch.randint(0, 23, (4, 9), generator=rng), is_real, is_action)


def _read(model, rows, *, temperature=1.0, **options):
    hidden = hidden_states(trunk_of(model), rows)
    return read_policy(model.get_output_embeddings(), hidden, rows, temperature=temperature, **options)


def _naive(model, rows, temperature):
    """One row at a time, without padding, from the model's own logits, all of them."""
    logprobs = torch.zeros(rows.ids.shape, dtype=torch.float64)
    entropy = torch.zeros(rows.ids.shape, dtype=torch.float64)
    for b in range(len(rows.ids)):
        length = int(rows.is_real[b].sum())
        log_p = (model(rows.ids[b : b + 1, :length]).logits[0] / temperature).log_softmax(-1)
        for t in range(1, length):
            if rows.is_action[b, t]:
                logprobs[b, t] = log_p[t - 1, rows.ids[b, t]]
                entropy[b, t] = -(log_p[t - 1].exp() * log_p[t - 1]).sum()
    return logprobs, entropy


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("max_logits", [2**24, 23 * 3, 1])
def test_logprobs_entropy_and_gradients_are_those_of_the_naive_reading(model, temperature, max_logits):
    rows = _rows()
    reading = _read(model, rows, temperature=temperature, entropy_gradient=True, max_logits=max_logits)
    (reading.logprobs.square() + 0.3 * reading.entropy).sum().backward()
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    logprobs, entropy = _naive(model, rows, temperature)
    (logprobs.square() + 0.3 * entropy).sum().backward()
    torch.testing.assert_close(reading.logprobs, logprobs)
    torch.testing.assert_close(reading.entropy, entropy)
    for gradient, p in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, p.grad)


def test_law_07_padding_changes_nothing(model):
    rows = _rows()
    wide = Rows(*(nn.functional.pad(table, (0, 5)) for table in (rows.ids, rows.is_real, rows.is_action)))
    noisy = Rows(torch.where(rows.is_real, rows.ids, 5), rows.is_real, rows.is_action)
    reading = _read(model, rows).logprobs
    torch.testing.assert_close(_read(model, wide).logprobs[:, :9], reading)
    torch.testing.assert_close(_read(model, noisy).logprobs, reading)


def test_a_pad_id_that_is_also_a_real_token_does_not_hide_it(model):
    # Row 1 really ends with the token that pads it: only the lengths can tell them apart.
    ids = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 7, 7, 7]])
    is_real = torch.tensor([[True] * 5, [True, True, True, False, False]])
    is_action = torch.tensor([[False, True, True, True, True], [False, True, True, False, False]])
    reading = _read(model, Rows(ids, is_real, is_action)).logprobs
    expected = model(ids[1:, :3]).logits.log_softmax(-1)[0, [0, 1], [2, 7]]
    torch.testing.assert_close(reading[1, 1:3], expected)


def test_law_03_nothing_is_read_at_environment_tokens(model):
    # A NaN in the hidden state of every position that produced no action token: neither value nor gradient
    # sees it.
    rows = _rows()
    hidden = hidden_states(trunk_of(model), rows).detach()
    produces = torch.zeros_like(rows.is_action)
    produces[:, :-1] = rows.is_action[:, 1:]
    poisoned = torch.where(produces[..., None], hidden, torch.nan).requires_grad_()
    head = model.get_output_embeddings()
    clean = read_policy(head, hidden, rows, temperature=1.0)
    reading = read_policy(head, poisoned, rows, temperature=1.0, entropy_gradient=True)
    torch.testing.assert_close(reading.logprobs, clean.logprobs)
    assert (reading.logprobs[~rows.is_action] == 0).all()
    (reading.logprobs + reading.entropy).sum().backward()
    assert poisoned.grad.isfinite().all()
    assert head.weight.grad.isfinite().all()


def test_no_full_table_of_logits_ever_exists():
    # 64 action tokens x 300,000 entries would be 19.2 million logits; forward and backward make at most 1
    # million.
    tokens, vocabulary, limit = 64, 300_000, 1_000_000
    head = nn.Linear(4, vocabulary, bias=False)
    hidden = torch.randn(1, tokens + 1, 4, requires_grad=True)
    ids = torch.arange(tokens + 1)[None]
    rows = Rows(ids, torch.ones_like(ids, dtype=torch.bool), ids > 0)
    sizes: list[int] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                if isinstance(tensor, torch.Tensor):
                    sizes.append(tensor.numel())
            return out

    with Watch():
        reading = read_policy(head, hidden, rows, temperature=1.0, max_logits=limit, entropy_gradient=True)
        (reading.logprobs.sum() + reading.entropy.sum()).backward()
    # The head's own weight (and its gradient) is 1.2 million; nothing has the size of tokens x vocabulary.
    assert max(sizes) <= head.weight.numel() < tokens * vocabulary
    assert sum(size > limit and size != head.weight.numel() for size in sizes) == 0


def test_bfloat16_logits_are_reduced_in_float32(build_model):
    model = build_model(dtype=torch.bfloat16)
    reading = _read(model, _rows())
    assert reading.logprobs.dtype == torch.float32


def test_a_row_that_begins_with_a_sampled_token_is_refused(model):
    ids = torch.tensor([[1, 2]])
    with pytest.raises(ValueError, match="begins with a sampled token"):
        _read(model, Rows(ids, ids > 0, ids > 0))


def test_recomputing_the_trunk_gives_the_same_gradient_and_leaves_the_model_in_eval_mode(model):
    rows, other = _rows(), copy.deepcopy(model)
    with recomputed_trunk(model, enabled=True):
        assert model.training
        _read(model, rows).logprobs.sum().backward()
    assert not model.training
    with recomputed_trunk(other, enabled=False):
        _read(other, rows).logprobs.sum().backward()
    for p, q in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_a_model_that_scales_its_logits_is_refused(model):
    check_model(model)
    forward = model.forward

    def scaled(*args, **kwargs):
        out = forward(*args, **kwargs)
        out.logits = out.logits * 3
        return out

    model.forward = scaled
    with pytest.raises(UnsupportedModel, match="another family"):
        check_model(model)


def test_dropout_is_switched_off_for_good():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_dropout = 0.2
            self.dropout = nn.Dropout(0.3)

    layer = Layer().train()
    disable_dropout(layer)
    assert layer.attention_dropout == 0.0
    assert torch.equal(layer.dropout(torch.ones(50)), torch.ones(50))
