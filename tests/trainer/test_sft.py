from __future__ import annotations

import math

import pytest
import torch

from turngym.trainer.batch import pack
from turngym.trainer.config import OptimConfig, SftConfig
from turngym.trainer.errors import HealthError
from turngym.trainer.sft import _Order, imitate, imitation_gradient, sft_optimiser


def test_the_loss_is_the_mean_cross_entropy_of_the_action_tokens(model, trajectories):
    batch = pack(*trajectories)
    figures = imitation_gradient(model, batch, micro_batch_tokens=25)
    ours = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    terms = []
    for b in range(len(batch.ids)):
        length = int(batch.is_real[b].sum())
        log_p = model(batch.ids[b : b + 1, :length]).logits[0].log_softmax(-1)
        terms += [-log_p[t - 1, batch.ids[b, t]] for t in range(length) if batch.is_action[b, t]]
    loss = torch.stack(terms).mean()
    loss.backward()
    assert figures["loss"] == pytest.approx(float(loss.detach()), rel=1e-5)
    for gradient, p in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(gradient, p.grad, rtol=1e-5, atol=1e-6)


def test_law_07_micro_batches_change_no_gradient(model, trajectories):
    gradients = []
    for micro_batch_tokens in (1, 10_000):
        imitation_gradient(model, pack(*trajectories), micro_batch_tokens=micro_batch_tokens)
        gradients.append([p.grad.clone() for p in model.parameters()])
        model.zero_grad()
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_a_warm_start_learns_what_it_is_shown_and_is_the_same_each_time(build_model, trajectories):
    def run(seed=0):
        config, optim = SftConfig(steps=60, lr=1e-2, batch_tokens=30), OptimConfig(micro_batch_tokens=25)
        model = build_model(dtype=torch.float32)
        optimiser = sft_optimiser(model, config, optim)
        steps = imitate(model, optimiser, trajectories[0], config, optim, seed=seed)
        return [figures["loss"] for figures in steps]

    losses = run()
    assert len(losses) == 60
    assert losses[-1] < 0.3 * losses[0]
    assert run() == losses != run(seed=1)


def test_every_episode_comes_before_any_comes_again(build_trajectory):
    episodes = [build_trajectory([((1,), (2, 3), 0.0)], sample=number) for number in range(5)]
    order = _Order(episodes, seed=0)
    taken = [order.take(6) for _ in range(5)]
    assert [len(part) for part in taken] == [2] * 5
    samples = [episode.sample for part in taken for episode in part]
    assert sorted(samples[:5]) == sorted(samples[5:]) == list(range(5))
    assert len(_Order(episodes, seed=0).take(10**9)) == 5


def test_a_loss_that_is_not_finite_stops_the_warm_start(build_model, trajectories):
    model = build_model()
    with torch.no_grad():
        model.lm_head.weight[0] = math.inf
    optimiser = sft_optimiser(model, SftConfig(), OptimConfig())
    with pytest.raises(HealthError, match=r"warm start, step 1.*sft\.lr"):
        next(imitate(model, optimiser, trajectories[0], SftConfig(), OptimConfig(), seed=0))
