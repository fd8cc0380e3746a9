from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.sandboxes.grading.compare import EXACT, Rules, is_close, is_same, show
from turngym.sandboxes.grading.values import encode, parse

NEAR = Rules(abs_tol=1e-6)
SHARE = Rules(rel_tol=1e-6)
NUMERIC = Rules(numeric=True)
SEQUENCES = Rules(sequences=True)
INF = math.inf


def same(expected: Any, actual: Any, rules: Rules = EXACT) -> bool:
    return is_same(parse(encode(expected)), parse(encode(actual)), rules)


@pytest.mark.parametrize(
    ("expected", "actual", "rules", "answer"),
    [
        (1, 1, EXACT, True),
        (1, True, EXACT, False),
        (True, 1, NUMERIC, False),
        (0, False, NEAR, False),
        (1, 1.0, EXACT, False),
        (1, 1.0, NUMERIC, True),
        (1.0, 1, NUMERIC, True),
        (1.0, 1, NEAR, True),
        (2**53 + 1, float(2**53), NUMERIC, False),
        (0.0, -0.0, EXACT, True),
        ({0.0}, {-0.0}, EXACT, True),
        (1.0, 1.0000001, EXACT, False),
        (1.0, 1.0000001, NEAR, True),
        (1.0, 1.00001, NEAR, False),
        (1e9, 1e9 + 100, SHARE, True),
        (1e9, 1e9 + 100, NEAR, False),
        (10**9, 10**9 + 100, SHARE, False),
        (1.0, 1e300, SHARE, False),
        (1.0, math.nan, NEAR, False),
        (math.nan, 1.0, NEAR, False),
        (math.nan, math.nan, NEAR, True),
        (1.0, INF, NEAR, False),
        (INF, 1.0, SHARE, False),
        (INF, INF, SHARE, True),
        (INF, -INF, SHARE, False),
        (1.5, 10**400, NEAR, False),
        (10**400, 1.5, SHARE, False),
        (10**400, INF, SHARE, False),
        (1e308, -1e308, SHARE, False),
        (1j, 1j, EXACT, True),
        (1j, complex(0, 1.0000001), NEAR, True),
        (1j, complex(math.nan, 1), NEAR, False),
        (1.0, 1 + 0j, NEAR, False),
        ("1", 1, NUMERIC, False),
        ("a", b"a", EXACT, False),
        (b"a", bytearray(b"a"), EXACT, False),
        ([1], (1,), EXACT, False),
        ([1], (1,), SEQUENCES, True),
        ((1, [2]), [1, (2,)], SEQUENCES, True),
        ([1], {1}, SEQUENCES, False),
        ({1}, frozenset({1}), EXACT, False),
        ([1, 2], [1], EXACT, False),
        ([1, 2], [2, 1], EXACT, False),
        ([[1.0]], [[1.0000001]], NEAR, True),
        ({"a": 1.0}, {"a": 1.0000001}, NEAR, True),
        ({"a": 1}, {"b": 1}, EXACT, False),
        ({"a": 1}, {"a": 1, "b": 2}, EXACT, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, EXACT, True),
        ({1: 0}, {True: 0}, EXACT, False),
        ({1: 0}, {1.0: 0}, EXACT, False),
        ({1: 0}, {1.0: 0}, NUMERIC, True),
        ({1, 2}, {1.0, 2.0}, NUMERIC, True),
        ({(1, "a")}, {(1.0, "a")}, NUMERIC, True),
        (frozenset({frozenset({1, 2})}), frozenset({frozenset({2, 1})}), EXACT, True),
        (None, 0, EXACT, False),
        (None, None, EXACT, True),
        ("", "", EXACT, True),
        ("", b"", EXACT, False),
        (None, [], EXACT, False),
        ([], (), EXACT, False),
    ],
)
def test_is_same(expected: Any, actual: Any, rules: Rules, answer: bool) -> None:
    assert same(expected, actual, rules) is answer


@given(st.floats(), st.floats())
def test_a_tolerance_never_lets_nan_or_infinity_pass(want: float, got: float) -> None:
    for rules in (NEAR, SHARE, Rules(abs_tol=1e308, rel_tol=0.5)):
        if is_close(want, got, rules):
            assert math.isnan(want) == math.isnan(got)
            assert math.isinf(want) == math.isinf(got)


@pytest.mark.parametrize(
    "bad", [{"abs_tol": -1.0}, {"abs_tol": math.nan}, {"abs_tol": INF}, {"rel_tol": 1.0}]
)
def test_a_tolerance_is_a_small_number(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="tol"):
        Rules(**bad)  # type: ignore[arg-type]


def test_what_people_see_is_short() -> None:
    assert show(parse(encode({"a": (1,), "b": [None, 2.5, b"x"]}))) == "{'a': (1,), 'b': [None, 2.5, b'x']}"
    assert len(show(parse(encode(["x" * 1000] * 1000)))) < 1000
    assert "bits" in show(parse(encode(1 << 100_000)))
