"""The name of a model's weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from turngym.agents.description import description
from turngym.agents.engines.fingerprint import fingerprint
from turngym.agents.engines.hf import HFEngine
from turngym.agents.local import stop_ids_of
from turngym.agents.models import load_model, save_checkpoint


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_equal_weights_have_equal_names_also_after_they_were_saved(dtype: str, tmp_path: Path) -> None:
    loaded = load_model("tiny", device="cpu", dtype=dtype)
    name = fingerprint(loaded.model)
    assert name == fingerprint(load_model("tiny", device="cpu", dtype=dtype).model)
    save_checkpoint(loaded, tmp_path / "model")
    again = load_model(tmp_path / "model", device="cpu")
    assert fingerprint(again.model) == name
    assert list(stop_ids_of(again)) == list(stop_ids_of(loaded))


def test_one_weight_that_changes_a_little_changes_the_name() -> None:
    model = load_model("tiny", device="cpu").model
    seen = {fingerprint(model), fingerprint(load_model("tiny", device="cpu", seed=1).model)}
    for parameter in model.parameters():
        with torch.no_grad():
            weight = parameter.view(-1)[-1]
            weight.copy_(torch.nextafter(weight, torch.tensor(9.0)))
        seen.add(fingerprint(model))
    assert len(seen) == 2 + sum(1 for _ in model.parameters())


def test_an_engine_tells_its_present_weights() -> None:
    model = load_model("tiny", device="cpu").model
    engine = HFEngine(model, max_context=64)
    before = description(engine)
    assert before == {"weights": fingerprint(model), "max_context": 64}
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1
    assert description(engine)["weights"] != before["weights"]
