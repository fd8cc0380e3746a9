"""The examples are configurations that can be trained: they are read, and all that can be checked beforehand is."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngym.trainer.config import load_config
from turngym.trainer.preflight import preflight

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.toml"))


def test_there_are_examples():
    assert {path.stem for path in EXAMPLES} >= {"calculator_grpo", "calculator_smollm2", "guess_number_ppo"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_passes_every_check_that_needs_no_model(path: Path):
    preflight(load_config(path))
