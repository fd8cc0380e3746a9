"""`tiny`: a Llama small enough to train on a laptop's CPU within minutes, built in process from a seed."""

from __future__ import annotations

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

from turngym.agents.models.loaded import LoadedModel
from turngym.agents.models.tiny_tokenizer import tiny_tokenizer

MAX_CONTEXT = 2048


def tiny_config() -> LlamaConfig:
    """The architecture.

    Three layers learn to copy the digits of an earlier result in far fewer steps than two. All heads share one
    head of keys and values: a decode step on a CPU spends most of its time reading them. The width of the
    initialisation matters: at 0.02, usual for large models, copying takes several times as many steps to appear.
    """
    tokenizer = tiny_tokenizer(model_max_length=MAX_CONTEXT)
    return LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=MAX_CONTEXT,
        initializer_range=0.05,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def build_tiny(*, seed: int) -> LoadedModel:
    """A fresh `tiny` with random weights that depend on the seed alone; no global random state is changed."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        model = LlamaForCausalLM(tiny_config())
    tokenizer = tiny_tokenizer(model_max_length=MAX_CONTEXT)
    model.generation_config = GenerationConfig(
        eos_token_id=[tokenizer.eos_token_id], pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    return LoadedModel(model, tokenizer, "tiny")
