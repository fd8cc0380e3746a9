"""A small model, and the slow, obvious way of sampling that the engine is compared with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from turngym.agents.noise import uniforms
from turngym.agents.protocols import GenerateRequest, Generation, NoiseKey, Sampling

VOCABULARY = 40


@pytest.fixture
def model() -> PreTrainedModel:
    """Two layers with grouped heads and dropout; the wide initialisation makes its distributions uneven."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=VOCABULARY,
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=256,
                initializer_range=0.4,
                attention_dropout=0.5,
                pad_token_id=None,
            )
        ).eval()


def make_request(
    prompt: Sequence[int],
    session: str = "s",
    *,
    offset: int = 0,
    stop_ids: Sequence[int] = (),
    **sampling: Any,
) -> GenerateRequest:
    return GenerateRequest(
        prompt_ids=tuple(prompt),
        session=session,
        sampling=Sampling(**{"max_tokens": 8, **sampling}),
        noise=NoiseKey(run_seed=7, step=0, task=session, sample=0),
        noise_offset=offset,
        stop_ids=tuple(stop_ids),
    )


@torch.no_grad()
def naive_generate(model: PreTrainedModel, request: GenerateRequest, *, max_context: int = 200) -> Generation:
    """Recompute the whole context for every token, without a cache, and invert the CDF in float64."""
    sampling = request.sampling
    ids: list[int] = []
    logprobs: list[float] = []
    limit = min(sampling.max_tokens, max_context - len(request.prompt_ids))
    noise = uniforms(request.noise, request.noise_offset, limit)
    for u in noise:
        logits = model(torch.tensor([[*request.prompt_ids, *ids]])).logits[0, -1]
        distribution = torch.log_softmax(logits.float() / sampling.temperature, -1)
        cumulative = np.cumsum(np.exp(distribution.double().numpy()))
        token = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
        ids.append(token)
        logprobs.append(float(distribution[token]))
        if token in request.stop_ids:
            return Generation(tuple(ids), tuple(logprobs), "stop", 0)
    return Generation(tuple(ids), tuple(logprobs), "length", 0)


def assert_same(got: Generation, want: Generation) -> None:
    assert got.ids == want.ids
    assert got.finish_reason == want.finish_reason
    np.testing.assert_allclose(got.logprobs, want.logprobs, atol=1e-4)


@pytest.fixture
def request_of() -> Callable[..., GenerateRequest]:
    return make_request


@pytest.fixture
def naive() -> Callable[..., Generation]:
    return naive_generate


@pytest.fixture
def same() -> Callable[[Generation, Generation], None]:
    return assert_same


@pytest.fixture
def together() -> Callable[..., list[Any]]:
    """Run coroutines at once in one event loop; exceptions are returned in place of results."""

    def run(*coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
        async def all_of_them() -> list[Any]:
            return await asyncio.gather(*coroutines, return_exceptions=True)

        return asyncio.run(all_of_them())

    return run
