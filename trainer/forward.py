"""Reading the policy: the logprob and entropy of each action token, without ever making the whole table of
logits.

The trunk runs over the rows as they are; the language-model head runs only on the hidden states that produced
an action token, a chunk of tokens at a time. Axis letters: B rows, T positions, D hidden size, N action
tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from turngym.trainer.errors import TrainerError

MAX_LOGITS = 2**24
"""The most logits that exist at once, in float32 (64 MiB)."""


class UnsupportedModel(TrainerError, TypeError):
    """The model's logits are not its output embedding applied to its last hidden state."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Token sequences for the model, padded on the right."""

    ids: Int[Tensor, "B T"]
    """Token ids; anything at padding."""
    is_real: Bool[Tensor, "B T"]
    """True where a row has a token: a prefix of each row."""
    is_action: Bool[Tensor, "B T"]
    """True on the tokens that the policy sampled."""


@dataclass(frozen=True, slots=True)
class PolicyReading:
    """What the policy says about the action tokens. 0 elsewhere."""

    logprobs: Float[Tensor, "B T"]
    """logπ of each action token, nats, at the sampling temperature."""
    entropy: Float[Tensor, "B T"]
    """Entropy in nats of the distribution that each action token was drawn from."""


def trunk_of(model: Any) -> nn.Module:
    """The model without its language-model head."""
    trunk: nn.Module = model.base_model
    return trunk


def hidden_states(trunk: nn.Module, rows: Rows) -> Float[Tensor, "B T D"]:
    """Last hidden state at every position. Undefined at padding.

    Which positions are padding is known from the rows' lengths and never guessed from a pad id, which may
    also be a real token.
    """
    positions = torch.arange(rows.ids.shape[1], device=rows.ids.device).expand(rows.ids.shape)
    out = trunk(
        input_ids=rows.ids, attention_mask=rows.is_real.long(), position_ids=positions, use_cache=False
    )
    hidden: Tensor = out.last_hidden_state
    return hidden


def before_actions(hidden: Float[Tensor, "B T D"], is_action: Bool[Tensor, "B T"]) -> Float[Tensor, "N D"]:
    """The hidden states that produced the action tokens: each stands one position before its token.

    Raises:
        ValueError: a row begins with an action token, so that nothing produced it.
    """
    if is_action[:, 0].any():
        raise ValueError("a row begins with a sampled token: there is no context that it was sampled from")
    return hidden[:, :-1][is_action[:, 1:]]


def at_action_places(x: Float[Tensor, "N"], is_action: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Write one number per action token to the tokens' places; 0 elsewhere."""
    return x.new_zeros(is_action.shape).masked_scatter(is_action, x)


def read_policy(
    head: nn.Linear,
    hidden: Float[Tensor, "B T D"],
    rows: Rows,
    *,
    temperature: float,
    entropy_gradient: bool = False,
    max_logits: int = MAX_LOGITS,
) -> PolicyReading:
    """Logprob and entropy of the action tokens, under the distribution that the engine samples from.

        logπ_t = z_t[a_t] − logsumexp z_t        H_t = logsumexp z_t − Σ_v p_t[v] z_t[v]        z = head(h) /
        temperature

    Args:
        head: hidden states to logits.
        hidden: last hidden states of the rows.
        temperature: divides the logits, as it did in sampling.
        entropy_gradient: whether the entropy can be differentiated; it costs memory.
        max_logits: the most logits that may exist at once. Beyond it the tokens are read in chunks, and the
            backward pass computes the logits of a chunk again instead of keeping them.
    """
    states = before_actions(hidden, rows.is_action)
    tokens = rows.ids[rows.is_action]
    chunk = max(1, max_logits // int(head.weight.shape[0]))
    single = len(tokens) <= chunk

    def read(states: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        if single or not torch.is_grad_enabled():
            return _read_chunk(head, states, tokens, temperature, entropy_gradient)
        again: tuple[Tensor, Tensor] = checkpoint(
            _read_chunk, head, states, tokens, temperature, entropy_gradient, use_reentrant=False
        )
        return again

    pieces = [read(s, t) for s, t in zip(states.split(chunk), tokens.split(chunk), strict=True)]
    logprobs, entropy = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return PolicyReading(
        at_action_places(logprobs, rows.is_action), at_action_places(entropy, rows.is_action)
    )


def _read_chunk(
    head: nn.Linear,
    states: Float[Tensor, "n D"],
    tokens: Int[Tensor, "n"],
    temperature: float,
    entropy_gradient: bool,
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"]]:
    # Everything narrower than float32 is reduced in float32; float64 models keep their precision.
    logits = head(states)
    log_p = (logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature).log_softmax(dim=-1)
    logprobs = log_p.gather(1, tokens[:, None]).squeeze(1)
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        return logprobs, -(log_p.exp() * log_p).sum(dim=-1)


@torch.no_grad()
def check_model(model: Any) -> None:
    """Make sure that this module reads the model as its own `forward` does.

    Raises:
        UnsupportedModel: the logits are scaled, capped or computed in another way.
    """
    ids = torch.arange(4, device=model.device)[None]
    whole = torch.ones_like(ids, dtype=torch.bool)
    ours = model.get_output_embeddings()(hidden_states(trunk_of(model), Rows(ids, whole, whole)))
    theirs = model(input_ids=ids, use_cache=False).logits
    if not torch.allclose(ours.float(), theirs.float(), rtol=1e-2, atol=1e-2):
        raise UnsupportedModel(
            f"the logits of {type(model).__name__} are not its output embedding applied to its last hidden "
            "state (scaled or capped logits?): train a model of another family"
        )


def disable_dropout(model: nn.Module) -> None:
    """Switch dropout off for good: the trainer must see the distribution that the engine samples from."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "dropout" in name and isinstance(value, float):
                setattr(module, name, 0.0)


@contextmanager
def recomputed_trunk(*models: Any, enabled: bool) -> Iterator[None]:
    """Within the block, a trunk keeps only each layer's input and computes the rest again in the backward
    pass.

    The library does so in training mode only, and there generation would lose its cache: hence a block.
    """
    switched = models if enabled else ()
    for model in switched:
        _recompute(model, "enable", {"use_reentrant": False})
        model.train()
    try:
        yield
    finally:
        for model in switched:
            model.eval()
            _recompute(model, "disable")


def _recompute(model: Any, verb: str, *options: Any) -> None:
    # transformers 5.2x renamed these methods.
    new, old = f"activation_checkpointing_{verb}", f"gradient_checkpointing_{verb}"
    getattr(model, new if hasattr(model, new) else old)(*options)
