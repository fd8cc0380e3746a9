"""From per-token losses to one number, the same however the batch is cut into micro-batches.

Every aggregation gives each action token a weight, and the loss is Σ_t w_t L_t. The weights are counted once,
over the *global* batch of an optimiser step (all micro-batches, all ranks); each micro-batch then adds its
own terms with them. A mean inside a micro-batch would depend on the cut. All weights are constant within an
episode, so a `Normaliser` is one number per episode, and an episode counts once even if it was split into
several segments.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, jaxtyped
from torch import Tensor

from turngym.trainer.losses.select import at_actions


class EmptyBatchWarning(UserWarning):
    """A step has no action token at all: its loss is 0 and teaches nothing."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What the global batch of one optimiser step holds. Episodes without an action token count nowhere."""

    tokens: Float[Tensor, " E"]
    """n_e, the action tokens of each episode."""
    group: Int[Tensor, " E"]
    """Group (prompt) of each episode."""
    norm_tokens: float
    """The constant length of `seq-mean-token-sum-norm`."""

    @property
    def episodes(self) -> Float[Tensor, ""]:
        """Number of episodes with an action token."""
        return (self.tokens > 0).sum().to(self.tokens.dtype)


def token_mean(counts: Counts) -> Tensor:
    """w = 1 / Σ_e n_e: every token weighs the same (DAPO)."""
    return (1 / counts.tokens.sum()).expand(counts.tokens.shape)


def seq_mean_token_mean(counts: Counts) -> Tensor:
    """w = 1 / (E n_e): every episode weighs the same, tokens of long ones less (the original GRPO)."""
    return 1 / (counts.episodes * counts.tokens)


def seq_mean_token_sum(counts: Counts) -> Tensor:
    """w = 1 / E: the policy gradient itself, averaged over episodes."""
    return (1 / counts.episodes).expand(counts.tokens.shape)


def seq_mean_token_sum_norm(counts: Counts) -> Tensor:
    """w = 1 / (E c): the same with a constant length c, never the padded width (Dr. GRPO)."""
    return seq_mean_token_sum(counts) / counts.norm_tokens


def prompt_mean(counts: Counts) -> Tensor:
    """w = 1 / (P n_p): the mean over prompts of the mean over a prompt's n_p action tokens."""
    names, prompt = counts.group.unique(return_inverse=True)
    tokens_of_prompt = counts.tokens.new_zeros(len(names)).index_add(0, prompt, counts.tokens)
    return 1 / ((tokens_of_prompt > 0).sum() * tokens_of_prompt[prompt])


AGGREGATIONS: Mapping[str, Callable[[Counts], Tensor]] = MappingProxyType(
    {
        "token-mean": token_mean,
        "seq-mean-token-mean": seq_mean_token_mean,
        "seq-mean-token-sum": seq_mean_token_sum,
        "seq-mean-token-sum-norm": seq_mean_token_sum_norm,
        "prompt-mean": prompt_mean,
    }
)
"""Weight of the action tokens of each episode, by the aggregation's name."""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """The weights of one optimiser step, counted over its global batch."""

    token_weight: Float[Tensor, " E"]
    """w of every action token of episode e; 0 for an episode without any. Float64."""

    @classmethod
    def of(
        cls,
        aggregation: str,
        is_action: Bool[Tensor, "*tokens"],
        episode: Int[Tensor, "*#tokens"],
        group: Int[Tensor, " E"],
        *,
        norm_tokens: float = 1.0,
    ) -> Self:
        """Count the global batch of one optimiser step.

        Args:
            aggregation: a name of `AGGREGATIONS`.
            is_action: True on the tokens that count, of all rows of the step.
            episode: episode of each token, in 0 … E−1; `batch.episode[:, None]` for rows.
            group: group (prompt) of each episode.
            norm_tokens: the constant length of `seq-mean-token-sum-norm`.
        """
        counted = episode.expand(is_action.shape)[is_action]
        tokens = torch.bincount(counted, minlength=len(group)).double()
        if not counted.numel():
            warnings.warn(
                "no action token in the batch of this step: skip the step, its loss is 0",
                EmptyBatchWarning,
                stacklevel=2,
            )
        weight = AGGREGATIONS[aggregation](Counts(tokens, group, norm_tokens))
        return cls(torch.where(tokens > 0, weight, 0))


@jaxtyped(typechecker=beartype)
def aggregate(
    per_token_loss: Float[Tensor, "*tokens"],
    is_action: Bool[Tensor, "*tokens"],
    episode: Int[Tensor, "*#tokens"],
    normaliser: Normaliser,
) -> Float[Tensor, ""]:
    """Contribution of one micro-batch to the loss of the step; the contributions of all add up to it.

        Σ_t w_t L_t  over the action tokens t of the micro-batch

    Args:
        per_token_loss: L_t; not read where `is_action` is False.
        is_action: True on the tokens that count.
        episode: episode of each token, numbered as in the global batch.
        normaliser: counted over the global batch.
    """
    weight = normaliser.token_weight.to(per_token_loss.dtype)[episode]
    return (at_actions(per_token_loss, is_action) * weight).sum()
