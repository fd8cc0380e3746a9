from __future__ import annotations

import random

import numpy as np
import torch

from turngym.agents.models.tiny import MAX_CONTEXT, build_tiny


def test_the_seed_alone_decides_the_weights() -> None:
    first, again, other = build_tiny(seed=1), build_tiny(seed=1), build_tiny(seed=2)
    a, b, c = (torch.cat([w.flatten() for w in each.model.parameters()]) for each in (first, again, other))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


def test_no_global_random_state_is_changed() -> None:
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    numpy_state = np.random.get_state()[1].tobytes()  # type: ignore[index, union-attr]
    build_tiny(seed=1)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tobytes() == numpy_state  # type: ignore[index, union-attr]


def test_size_and_limits() -> None:
    tiny = build_tiny(seed=0)
    assert 300_000 < sum(weight.numel() for weight in tiny.model.parameters()) < 1_000_000
    assert tiny.model.dtype == torch.float32
    assert tiny.model.config.max_position_embeddings == tiny.tokenizer.model_max_length == MAX_CONTEXT
    assert tiny.model.get_input_embeddings().weight.shape[0] == len(tiny.tokenizer)
    assert tiny.model.generation_config.eos_token_id == [tiny.tokenizer.eos_token_id]
    assert tiny.name == "tiny"
