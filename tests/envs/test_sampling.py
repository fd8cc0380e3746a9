from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from turngym.envs.sampling import random_action, random_value
from turngym.envs.tools import Tool


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)
    parent: Tree | None = None


def everything(
    a: int,
    b: float,
    c: str,
    d: bool,
    e: Literal["x", 2],
    f: Colour,
    g: list[int],
    h: tuple[int, str],
    i: Tree,
    j: int | None,
    k: Literal["only"],
    bounded: Annotated[int, Field(ge=3, lt=6)],
    short: Annotated[str, Field(min_length=2, max_length=4)],
    anything: Any = None,
) -> None:
    """All sorts of types."""


EVERYTHING = Tool.of(everything)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_random_arguments_fit_their_schema(seed):
    rng = np.random.default_rng(seed)
    arguments = random_value(EVERYTHING.spec.function.parameters, rng)
    EVERYTHING.read(json.dumps(arguments))  # raises if they do not


def test_random_actions():
    rng = np.random.default_rng(0)
    assert random_action(rng, choices=["only"]) == "only"
    assert isinstance(random_action(rng), str)
    kinds = {type(random_action(rng, [EVERYTHING.spec])) for _ in range(40)}
    assert len(kinds) == 2
