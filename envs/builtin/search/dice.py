"""Draws that come out the same on every machine and with every version of the libraries: all from uniform numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")
_AT_ONCE = 32


class Dice:
    """Choices from a stream of uniform numbers; how `choice` or `integers` of a library use theirs may change."""

    def __init__(self, uniforms: Iterator[float]) -> None:
        self._uniforms = uniforms

    @classmethod
    def seeded(cls, seed: str | int) -> Dice:
        """Of Python's generator, whose `random()` is promised to stay as it is."""
        return cls(iter(random.Random(seed).random, None))

    @classmethod
    def of(cls, rng: np.random.Generator) -> Dice:
        """Of a numpy generator; takes its numbers by the vector, since single ones cost the most."""
        return cls(_flow(rng))

    def below(self, bound: int) -> int:
        """A number from 0 to bound − 1."""
        return int(next(self._uniforms) * bound)

    def pick(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return low + self.below(high - low + 1)

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[self.below(len(items))]

    def chance(self, share: float) -> bool:
        """True in that share of cases."""
        return next(self._uniforms) < share

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The items in a random order (Fisher and Yates)."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed


def _flow(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(_AT_ONCE).tolist()
