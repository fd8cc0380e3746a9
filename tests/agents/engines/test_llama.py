from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from turngym.agents.engines.forward import CachedForward, choose_forward, model_logits
from turngym.agents.engines.llama import llama_logits
from turngym.agents.engines.slots import SlotTable
from turngym.agents.models.tiny import tiny_config


@pytest.mark.parametrize("heads", [1, 2, 4])
@torch.no_grad()
def test_the_same_logits_as_the_library(heads: int) -> None:
    config = tiny_config()
    config.num_key_value_heads = heads
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config).eval()
    rng = np.random.default_rng(0)
    contexts = [rng.integers(0, 512, length) for length in (5, 30, 9)]
    results: list[list[torch.Tensor]] = []
    for logits in (llama_logits, model_logits):
        table = SlotTable(3)
        for row, ids in enumerate(contexts):
            table.take_row(str(row))
            table.start(row, ids, 0)
        forward = CachedForward(model, table, logits)
        steps = [([0, 1, 2], [4, 17, 1]), ([1], [12]), ([0, 2], [1, 7]), ([1, 2], [1, 1])]
        results.append([forward.run(np.array(rows), np.array(take)) for rows, take in steps])
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_it_is_what_a_plain_llama_uses(model: Any) -> None:
    forward, reason = choose_forward(model, SlotTable(1), max_context=50)
    assert reason is None
    assert forward._logits is llama_logits  # type: ignore[attr-defined]
