"""One forward pass of a Llama with a cache, in as few operations as it takes.

A decode step of a small model is mostly overhead: transformers spends some sixty calls on each layer. Here
are the same sums in about twenty; in float32 they give the same logits.
Axis letters: R rows, Q new tokens, L cached tokens, H query heads, K key-value heads, D head size, V
vocabulary.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaForCausalLM, PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from turngym.agents.engines.kv_cache import SlotCache


def is_plain_llama(model: PreTrainedModel) -> bool:
    """True if `llama_logits` computes what the model does: an unchanged Llama in float32.

    In half precision transformers rounds at other places, and the overhead matters less.
    """
    return (
        type(model) is LlamaForCausalLM
        and model.dtype == torch.float32
        and model.config._attn_implementation == "sdpa"
        and model.config.hidden_act == "silu"
        and all(
            type(module) is nn.Linear
            for name, module in model.named_modules()
            if name.endswith(("_proj", "head"))
        )
        and not any(map(_is_changed, model.modules()))
    )


def llama_logits(
    model: PreTrainedModel, cache: SlotCache, ids: Tensor, positions: Tensor, mask: Tensor
) -> Tensor:
    """The logits after each row's last token.

    Args:
        model: a plain Llama.
        cache: with its plan set for this batch.
        ids: [R, Q].
        positions: [R, Q].
        mask: added to the attention scores, [R, 1, Q, L].

    Returns:
        [R, V].
    """
    trunk, config = model.model, model.config
    rows, queries = ids.shape
    groups = config.num_attention_heads // config.num_key_value_heads
    # The query heads that share a head of keys and values become further queries of it.
    mask = mask.repeat(1, 1, groups, 1) if queries > 1 else mask
    hidden = F.embedding(ids, trunk.embed_tokens.weight)
    cos, sin = (part[:, None] for part in trunk.rotary_emb(hidden, positions))
    for number, layer in enumerate(trunk.layers):
        attention, mlp = layer.self_attn, layer.mlp
        heads = (rows, queries, -1, attention.head_dim)
        normed = _norm(layer.input_layernorm, hidden)
        query = _rotate(_linear(attention.q_proj, normed).view(heads).transpose(1, 2), cos, sin)
        key = _rotate(_linear(attention.k_proj, normed).view(heads).transpose(1, 2), cos, sin)
        value = _linear(attention.v_proj, normed).view(heads).transpose(1, 2)
        keys, values = cache.update(key, value, number)
        packed = query.reshape(rows, keys.shape[1], groups * queries, attention.head_dim)
        mixed = F.scaled_dot_product_attention(packed, keys, values, attn_mask=mask, scale=attention.scaling)
        mixed = mixed.view(rows, -1, queries, attention.head_dim).transpose(1, 2).reshape(rows, queries, -1)
        hidden = hidden + _linear(attention.o_proj, mixed)
        normed = _norm(layer.post_attention_layernorm, hidden)
        gated = F.silu(_linear(mlp.gate_proj, normed)) * _linear(mlp.up_proj, normed)
        hidden = hidden + _linear(mlp.down_proj, gated)
    return _linear(model.lm_head, _norm(trunk.norm, hidden[:, -1]))


def _is_changed(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))


def _linear(module: nn.Linear, x: Tensor) -> Tensor:
    return F.linear(x, module.weight, module.bias)


def _norm(module: LlamaRMSNorm, x: Tensor) -> Tensor:
    return F.rms_norm(x, module.weight.shape, module.weight, module.variance_epsilon)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding: pairs (i, i + D/2) turn by an angle that grows with the position."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin
