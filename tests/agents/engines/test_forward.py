from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    Qwen3Config,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.gemma2 import Gemma2Config

from turngym.agents.engines.hf import HFEngine
from turngym.agents.engines.llama import is_plain_llama
from turngym.agents.errors import EngineError

SMALL = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "initializer_range": 0.4,
    "pad_token_id": None,
}
GPT2 = {
    "vocab_size": 40,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 256,
    "initializer_range": 0.3,
}

CACHED = {
    "llama": LlamaConfig(**SMALL),
    "llama, biases": LlamaConfig(**SMALL, attention_bias=True, mlp_bias=True),
    "llama, one head of keys": LlamaConfig(**SMALL | {"num_key_value_heads": 1}),
    "llama, gelu": LlamaConfig(**SMALL, hidden_act="gelu"),
    "llama, eager attention": LlamaConfig(**SMALL, attn_implementation="eager"),
    "llama, longer rotary embeddings": LlamaConfig(
        **SMALL, rope_parameters={"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0}
    ),
    "qwen3": Qwen3Config(**SMALL),
    "mistral, window as long as the context": MistralConfig(**SMALL, sliding_window=200),
    "gemma2, window as long as the context": Gemma2Config(
        **SMALL, sliding_window=200, attn_implementation="eager"
    ),
    "gpt2": GPT2Config(**GPT2, bos_token_id=0, eos_token_id=0),
}
RECOMPUTED = {
    "mistral": (MistralConfig(**SMALL, sliding_window=6), "last 6 tokens"),
    "gemma2": (Gemma2Config(**SMALL, sliding_window=6, attn_implementation="eager"), "last 6 tokens"),
    "mamba": (
        MambaConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, initializer_range=0.4),
        "linear_attention",
    ),
}


def build(config: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config).eval()


def check(model: Any, engine: HFEngine, request_of: Any, naive: Any, same: Any, together: Any) -> None:
    first = [request_of(range(5, 8 + 3 * n), f"s{n}", max_tokens=4 + n) for n in range(5)]
    results = together(*map(engine.generate, first))
    second = [
        request_of([*r.prompt_ids, *g.ids, 7, 8, 9], r.session, offset=len(g.ids))
        for r, g in zip(first, results, strict=True)
    ]
    results += together(*map(engine.generate, second))
    for request, generation in zip(first + second, results, strict=True):
        same(generation, naive(model, request))


@pytest.mark.parametrize("name", CACHED)
def test_full_attention_is_cached(name: str, request_of: Any, naive: Any, same: Any, together: Any) -> None:
    model = build(CACHED[name])
    engine = HFEngine(model, max_context=200, slots=3)
    assert engine.why_not_cached is None
    check(model, engine, request_of, naive, same, together)


@pytest.mark.parametrize("name", RECOMPUTED)
def test_other_models_are_recomputed(
    name: str, request_of: Any, naive: Any, same: Any, together: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config, reason = RECOMPUTED[name]
    model = build(config)
    engine = HFEngine(model, max_context=200, slots=3, prefill_tokens=50)
    assert reason in (engine.why_not_cached or "")
    assert reason in caplog.text
    check(model, engine, request_of, naive, same, together)


@pytest.mark.parametrize(
    ("replacement", "reason"), [(torch.zeros_like, "logits differ"), (lambda mask: None, "does not take")]
)
def test_a_model_that_misreads_our_mask_is_found_out(
    replacement: Any, reason: str, request_of: Any, naive: Any, same: Any, together: Any
) -> None:
    model = build(LlamaConfig(**SMALL))
    forward = model.forward

    @functools.wraps(forward)
    def misreading(*args: Any, attention_mask: Any = None, **kwargs: Any) -> Any:
        mask = None if attention_mask is None else replacement(attention_mask)
        return forward(*args, attention_mask=mask, **kwargs)

    model.forward = misreading
    engine = HFEngine(model, max_context=200)
    assert reason in (engine.why_not_cached or "")
    check(model, engine, request_of, naive, same, together)


def test_a_model_that_does_not_continue_texts_is_refused() -> None:
    model = T5ForConditionalGeneration(T5Config(vocab_size=40, d_model=8, d_ff=8, num_layers=1, num_heads=1))
    with pytest.raises(EngineError, match="T5ForConditionalGeneration cannot be run"):
        HFEngine(model, max_context=50)


def test_only_an_unchanged_llama_in_float32_is_a_plain_one() -> None:
    for name, config in CACHED.items():
        is_plain = name.startswith("llama") and not name.endswith(("gelu", "eager attention"))
        assert is_plain_llama(build(config)) == is_plain, name
    assert not is_plain_llama(build(LlamaConfig(**SMALL)).to(torch.bfloat16))
    hooked = build(LlamaConfig(**SMALL))
    hooked.model.layers[1].mlp.register_forward_hook(lambda *_: None)
    assert not is_plain_llama(hooked)
    replaced = build(LlamaConfig(**SMALL))
    replaced.model.norm.forward = replaced.model.norm.forward
    assert not is_plain_llama(replaced)
    adapted = build(LlamaConfig(**SMALL))
    adapted.model.layers[1].mlp.up_proj = torch.nn.Sequential(adapted.model.layers[1].mlp.up_proj)
    assert not is_plain_llama(adapted)


def test_bfloat16_is_cached(request_of: Any, together: Any) -> None:
    model = build(LlamaConfig(**SMALL)).to(torch.bfloat16)
    engine = HFEngine(model, max_context=200)
    assert engine.why_not_cached is None
    generation = together(engine.generate(request_of([5, 6, 7])))[0]
    ids = torch.tensor([[5, 6, 7, *generation.ids]])
    with torch.no_grad():
        logprobs = torch.log_softmax(model(ids).logits[0, 2:-1].float(), -1)
    want = logprobs.gather(-1, ids[0, 3:, None])[:, 0]
    assert (torch.tensor(generation.logprobs) - want).abs().mean() < 0.05
