from __future__ import annotations

import math

import pytest
import torch

from turngym.trainer.finite import first_not_finite

SOUND = {
    "a": torch.ones(2),
    "b": [torch.zeros(3, dtype=torch.bfloat16), {"c": torch.arange(3)}],
    "name": "x",
    "n": 3,
}


def test_what_is_finite_has_no_first():
    assert first_not_finite(SOUND) is None
    assert first_not_finite(torch.tensor(1.0), "x") is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_first_that_is_not_is_named(value, dtype):
    broken = torch.zeros(2, 3, dtype=dtype)
    broken[1, 2] = value
    assert first_not_finite(SOUND | {"z": ({"w": broken},)}) == "z.0.w"
    assert first_not_finite(broken, "x") == "x"
