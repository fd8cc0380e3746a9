"""Entropy of the next-token distribution: how undecided the policy still is."""

import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def entropy(logits: Float[Tensor, "*tokens V"]) -> Float[Tensor, "*tokens"]:
    """Entropy in nats of the distribution that a token is sampled from.

        H = −Σ_v p_v log p_v,    p = softmax(z)

    Args:
        logits: z, already divided by the temperature; −∞ where the sampler's support excludes a token. Give it the
            logits at action tokens only, and a large vocabulary in chunks of tokens.

    Returns:
        H, between 0 and log V.
    """
    log_p = torch.log_softmax(logits, dim=-1)
    # An excluded token adds lim p log p = 0; as 0 · (−∞) it would be NaN, in the gradient too.
    return -(log_p.exp() * log_p.masked_fill(log_p.isneginf(), 0)).sum(dim=-1)
