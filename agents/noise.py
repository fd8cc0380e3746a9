"""Sampling noise by number instead of by order: token n of an episode has its own uniform, however it was
batched.

A counter-based generator (Philox) is keyed with the episode's name; its n-th output depends on the key and n
alone, so sampled tokens do not depend on which episodes shared a batch, on retries of others, or on the
number of workers (law 9).
"""

from __future__ import annotations

import hashlib
import threading

import numpy as np
from numpy.typing import NDArray

from turngym.agents.protocols import NoiseKey

_NUMBERS_PER_COUNT = 4  # Philox 4x64 turns one counter value into four 64-bit numbers
_TO_UNIT = 2.0**-53  # scales the 53 high bits of a number to [0, 1)


class _Generators(threading.local):
    """One generator per thread. Its state is set anew before every use: only building one costs time."""

    def __init__(self) -> None:
        self.philox = np.random.Philox(key=0)


_generators = _Generators()


def uniforms(key: NoiseKey, offset: int, count: int) -> NDArray[np.float64]:
    """Numbers `offset` … `offset + count − 1` of a key's stream, each uniform in [0, 1).

    Any way of cutting a range into calls gives the same numbers.

    Args:
        key: names the stream.
        offset: index of the first number wanted, at least 0.
        count: how many, at least 0.

    Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
    """
    if offset < 0 or count < 0:
        raise ValueError(f"offset and count must be at least 0, got {offset} and {count}")
    block, skip = divmod(offset, _NUMBERS_PER_COUNT)
    philox = _generators.philox
    philox.state = {
        "bit_generator": "Philox",
        "state": {"counter": np.array([block, 0, 0, 0], dtype=np.uint64), "key": _philox_key(key)},
        "buffer": np.zeros(_NUMBERS_PER_COUNT, dtype=np.uint64),
        "buffer_pos": _NUMBERS_PER_COUNT,  # nothing of an earlier use is left over
        "has_uint32": 0,
        "uinteger": 0,
    }
    raw = philox.random_raw(skip + count)[skip:]
    return (raw >> np.uint64(11)).astype(np.float64) * _TO_UNIT


def _philox_key(key: NoiseKey) -> NDArray[np.uint64]:
    # The free-text field comes last, so that no two keys are spelt alike. 128 bits: collisions do not happen.
    name = f"turngym.noise.1|{key.run_seed}|{key.step}|{key.sample}|{key.task}"
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return np.frombuffer(digest, dtype="<u8").astype(np.uint64)
