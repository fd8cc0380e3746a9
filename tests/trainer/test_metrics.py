from __future__ import annotations

import math

import pytest
import torch

from turngym.trainer.metrics import Tally, explained_variance, tally_gap, tally_ratio

IS_ACTION = torch.tensor([[False, True, True], [True, False, False]])


def test_means_count_action_tokens_and_losses_count_optimiser_steps():
    tally = Tally()
    for _ in range(2):
        tally.mean("x", torch.tensor([[math.nan, 1.0, 2.0], [6.0, math.nan, math.nan]]), IS_ACTION)
        tally.losses({"loss": torch.tensor(0.5)})
        tally.losses({"loss": torch.tensor(0.25)})
        tally.optimiser_step(4.0)
    assert tally.figures() == {"x": 3.0, "loss": 0.75, "grad_norm": 4.0}


def test_ratio_figures_by_hand():
    tally = Tally()
    new = torch.tensor([[9.0, math.log(2.0), 0.0], [0.0, 9.0, 9.0]])
    tally_ratio(tally, new, torch.zeros(2, 3), IS_ACTION)
    figures = tally.figures()
    assert figures["ratio_mean"] == pytest.approx(4 / 3)
    assert figures["ratio_max"] == pytest.approx(2.0)
    assert figures["approx_kl"] == pytest.approx((1 - math.log(2)) / 3)


def test_gap_between_engine_and_trainer():
    tally = Tally()
    tally_gap(tally, torch.tensor([[0.0, -1.0, -2.0], [-3.0, 0.0, 0.0]]), torch.full((2, 3), -2.0), IS_ACTION)
    assert tally.figures() == pytest.approx({"logprob_gap_mean": 2 / 3, "logprob_gap_max": 1.0})


def test_explained_variance():
    returns = torch.tensor([[math.nan, 1.0, 2.0], [3.0, math.nan, math.nan]])
    assert explained_variance(returns, returns, IS_ACTION) == pytest.approx(1.0)
    assert explained_variance(torch.full((2, 3), 7.0), returns, IS_ACTION) == pytest.approx(0.0)
    assert explained_variance(torch.zeros(2, 3), torch.ones(2, 3), IS_ACTION) == 0.0
