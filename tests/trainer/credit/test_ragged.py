"""The place of an item among those of its key."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.trainer.credit.ragged import slots


def test_hand_case() -> None:
    slot, counts = slots(torch.tensor([2, 0, 2, 2, 0]), 4)
    assert slot.tolist() == [0, 0, 1, 2, 1]
    assert counts.tolist() == [2, 0, 3, 0]


@given(st.lists(st.integers(0, 5), max_size=30))
@settings(max_examples=50, deadline=None)
def test_agrees_with_the_definition(key: list[int]) -> None:
    slot, counts = slots(torch.tensor(key, dtype=torch.long), 6)
    assert slot.tolist() == [key[:i].count(k) for i, k in enumerate(key)]
    assert counts.tolist() == [key.count(k) for k in range(6)]
