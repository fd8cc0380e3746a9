from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.noise import uniforms
from turngym.agents.protocols import NoiseKey

KEY = NoiseKey(run_seed=1, step=2, task="task", sample=3)
keys = st.builds(
    NoiseKey,
    run_seed=st.integers(0, 2**63),
    step=st.integers(0, 10**6),
    task=st.text(),
    sample=st.integers(0, 100),
)


@given(keys, st.integers(0, 10**9), st.lists(st.integers(0, 9), max_size=8))
@settings(max_examples=100, deadline=None)
def test_law_09_noise_depends_on_key_and_number_alone(key: NoiseKey, offset: int, cuts: list[int]) -> None:
    whole = uniforms(key, offset, sum(cuts))
    pieces, start = [], offset
    for count in cuts:
        uniforms(KEY, 5, 3)  # another stream in between
        pieces.append(uniforms(key, start, count))
        start += count
    assert np.concatenate([np.zeros(0), *pieces]).tolist() == whole.tolist()


@given(keys, keys)
@settings(max_examples=100, deadline=None)
def test_different_keys_have_different_streams(a: NoiseKey, b: NoiseKey) -> None:
    assert (uniforms(a, 0, 4).tolist() == uniforms(b, 0, 4).tolist()) == (a == b)


def test_fields_cannot_be_confused() -> None:
    names = [
        NoiseKey(1, 2, "3|4", 5),
        NoiseKey(1, 2, "4", 3),
        NoiseKey(12, 3, "4", 5),
        NoiseKey(1, 23, "4", 5),
    ]
    assert len({tuple(uniforms(key, 0, 2)) for key in names}) == len(names)


def test_the_numbers_are_those_of_philox() -> None:
    """The stream is pinned by the paper's definition: a recorded run is sampled alike by later releases."""
    digest = hashlib.blake2b(b"turngym.noise.1|1|2|3|task", digest_size=16).digest()
    key = (int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little"))
    want = [number >> 11 for count in (1, 2, 3) for number in philox_4x64(count, key)]
    assert uniforms(KEY, 0, 12).tolist() == [number / 2**53 for number in want]


def philox_4x64(count: int, key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Ten rounds of multiplication, as in figure 1 and table 2 of Salmon et al. 2011."""
    word = 2**64 - 1
    a, b, c, d = count, 0, 0, 0
    k0, k1 = key
    for _ in range(10):
        left, right = 0xD2E7470EE14C6C93 * a, 0xCA5A826395121157 * c
        a, b, c, d = right >> 64 ^ b ^ k0, right & word, left >> 64 ^ d ^ k1, left & word
        k0, k1 = (k0 + 0x9E3779B97F4A7C15) & word, (k1 + 0xBB67AE8584CAA73B) & word
    return a, b, c, d


def test_uniform_in_the_half_open_unit_interval() -> None:
    numbers = uniforms(KEY, 0, 100_000)
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    counts = np.histogram(numbers, bins=20, range=(0, 1))[0]
    assert abs(counts - 5000).max() < 5 * 70, "five standard deviations"
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.02


def test_negative_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        uniforms(KEY, -1, 1)
    with pytest.raises(ValueError, match="at least 0"):
        uniforms(KEY, 0, -1)


def test_global_random_state_is_untouched() -> None:
    before = np.random.get_state()[1].tobytes()  # type: ignore[index, union-attr]
    uniforms(KEY, 0, 100)
    assert np.random.get_state()[1].tobytes() == before  # type: ignore[index, union-attr]
