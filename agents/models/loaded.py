"""What loading a model gives."""

from __future__ import annotations

from dataclasses import dataclass

from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A causal language model with its tokenizer."""

    model: PreTrainedModel
    """The weights, on their device, in training mode off."""
    tokenizer: PreTrainedTokenizerBase
    """The tokenizer, which also carries the chat template."""
    name: str
    """The spec that it was loaded by, such as `tiny` or a folder."""
