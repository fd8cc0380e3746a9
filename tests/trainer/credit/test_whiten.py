"""Whitening over tokens and over episodes."""

import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.trainer.credit.whiten import TooFewToWhitenWarning, normalise, whiten

NUMBERS = st.lists(st.integers(-40, 40).map(lambda n: n / 8), min_size=2, max_size=20)


@given(NUMBERS, st.sampled_from([0, 1]))
@settings(max_examples=50, deadline=None)
def test_agree_with_the_definition(numbers: list[float], ddof: int) -> None:
    x = torch.tensor(numbers, dtype=torch.float64)
    everything = torch.ones(len(x), dtype=torch.bool)
    variance = statistics.variance(numbers) if ddof else statistics.pvariance(numbers)
    centred = x - statistics.mean(numbers)
    if variance == 0:
        centred = torch.zeros_like(x)
    torch.testing.assert_close(whiten(x, everything, ddof=ddof), centred / (variance + 1e-8) ** 0.5)
    expected = centred / (variance**0.5 + 1e-4)
    torch.testing.assert_close(normalise(x, everything, ddof=ddof, eps=1e-4), expected)


@pytest.mark.parametrize("junk", [5.0, torch.inf, torch.nan])
def test_law_03_nothing_is_read_where_not_an_action(junk: float) -> None:
    is_action = torch.tensor([[True, False, True], [False, False, True]])
    x = torch.tensor([[1.0, junk, 2.0], [junk, junk, 6.0]])
    white = whiten(x, is_action)
    torch.testing.assert_close(white[is_action], whiten(x[is_action], torch.ones(3, dtype=torch.bool)))
    assert white[~is_action].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_numbers_become_exactly_0(dtype: torch.dtype) -> None:
    x, everything = torch.full((7,), 0.1, dtype=dtype), torch.ones(7, dtype=torch.bool)
    assert whiten(x, everything).eq(0).all()
    assert normalise(x, everything, eps=0.0).eq(0).all()


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("function", [whiten, normalise])
def test_fewer_than_two_become_0_with_a_warning(function, count: int, ddof: int) -> None:
    counts = torch.arange(3) < count
    with pytest.warns(TooFewToWhitenWarning, match=f"{count} numbers"):
        assert function(torch.tensor([3.0, 1.0, 2.0]), counts, ddof=ddof).tolist() == [0, 0, 0]
