from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.engines.sampling import SamplingRows, _restrict, draw
from turngym.agents.protocols import Sampling

seeds = st.integers(0, 2**32 - 1)


def rows(count: int, **options: float) -> SamplingRows:
    return SamplingRows.of([Sampling(**options)] * count)  # type: ignore[arg-type]


def reference(logits: np.ndarray, sampling: Sampling) -> np.ndarray:
    """The distribution that is sampled from, by sorting one row in float64."""
    scaled = logits.astype(np.float64) / sampling.temperature
    probabilities = np.exp(scaled - scaled.max())
    probabilities /= probabilities.sum()
    order = np.argsort(-probabilities, kind="stable")
    if sampling.top_k:
        probabilities[order[sampling.top_k :]] = 0.0
        probabilities /= probabilities.sum()
    if sampling.top_p < 1.0:
        before = np.cumsum(probabilities[order]) - probabilities[order]
        probabilities[order[before >= sampling.top_p]] = 0.0
        probabilities /= probabilities.sum()
    return probabilities


@given(
    seeds,
    st.sampled_from([1.0, 0.6, 2.0, 0.05]),
    st.sampled_from([0, 1, 3, 50]),
    st.sampled_from([1.0, 0.9, 0.3, 1e-6]),
)
@settings(max_examples=60, deadline=None)
def test_inverts_the_cdf_of_the_distribution_that_it_reports(
    seed: int, temperature: float, top_k: int, top_p: float
) -> None:
    rng = np.random.default_rng(seed)
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    logits = rng.normal(size=(6, 20)).astype(np.float32) * 3
    uniforms = rng.random(6)
    ids, logprobs = draw(torch.from_numpy(logits), SamplingRows.of([sampling] * 6), uniforms)
    for row in range(6):
        probabilities = reference(logits[row], sampling)
        cumulative = np.cumsum(probabilities)
        assert probabilities[ids[row]] > 0
        assert logprobs[row] == pytest.approx(math.log(probabilities[ids[row]]), abs=1e-4)
        assert cumulative[ids[row]] > uniforms[row] - 1e-5
        assert cumulative[ids[row]] - probabilities[ids[row]] < uniforms[row] + 1e-5


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_rows_with_different_options_do_not_touch_each_other(seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = [
        Sampling(),
        Sampling(temperature=0.0),
        Sampling(top_k=2),
        Sampling(top_p=0.5, temperature=0.7),
        Sampling(temperature=0.0, top_k=3, top_p=0.2),
    ]
    logits, uniforms = torch.from_numpy(rng.normal(size=(5, 9)).astype(np.float32)), rng.random(5)
    ids, logprobs = draw(logits, SamplingRows.of(options), uniforms)
    for row, sampling in enumerate(options):
        alone = draw(logits[row : row + 1], SamplingRows.of([sampling]), uniforms[row : row + 1])
        assert alone[0] == ids[row : row + 1]
        assert alone[1] == pytest.approx(logprobs[row : row + 1], abs=1e-5)


def test_frequencies_follow_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -1.0]])
    count = 40_000
    grid = (np.arange(count) + 0.5) / count
    ids, _ = draw(logits.expand(count, -1), rows(count), grid)
    want = torch.softmax(logits[0], -1).numpy()
    np.testing.assert_allclose(np.bincount(ids, minlength=4) / count, want, atol=2e-4)


@pytest.mark.parametrize("uniform", [0.0, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("vocabulary", [5, 50_000])
def test_a_token_of_probability_zero_is_never_drawn(uniform: float, vocabulary: int) -> None:
    logits = torch.full((1, vocabulary), -torch.inf)
    logits[0, 1:-2] = torch.linspace(0, 1, vocabulary - 3)
    ids, logprobs = draw(logits, rows(1), np.array([uniform]))
    assert 1 <= ids[0] < vocabulary - 2
    assert math.isfinite(logprobs[0])


def test_greedy_takes_the_first_of_the_most_likely_and_reports_a_point_mass() -> None:
    logits = torch.tensor([[0.0, 3.0, 3.0, 1.0]])
    assert draw(logits, rows(1, temperature=0.0), np.array([0.999])) == ([1], [0.0])


def test_top_k_of_one_is_certain() -> None:
    ids, logprobs = draw(torch.tensor([[0.0, 1.0]]), rows(1, top_k=1), np.array([0.1]))
    assert (ids, logprobs) == ([1], [0.0])


def test_a_row_without_limits_keeps_every_token() -> None:
    logprobs = torch.log_softmax(torch.tensor([[0.0, 0.0, -40.0, -50.0]]).expand(2, -1), -1)
    options = SamplingRows.of([Sampling(), Sampling(top_p=0.999)])
    assert torch.isfinite(_restrict(logprobs, options)).tolist() == [[True] * 4, [True, True, False, False]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_show(temperature: float) -> None:
    logits = torch.tensor([[0.0, torch.nan], [torch.inf, 0.0], [0.0, 1.0]])
    ids, logprobs = draw(logits, rows(3, temperature=temperature), np.array([0.5, 0.5, 0.9]))
    assert [math.isnan(value) for value in logprobs] == [True, True, False]
    assert ids[2] == 1
