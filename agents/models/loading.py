"""Find a model by its spec, and write one back: a built-in name, or a folder in the transformers format."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase

from turngym.agents.errors import ModelNotFound
from turngym.agents.models.folders import whole_folder
from turngym.agents.models.loaded import LoadedModel
from turngym.agents.models.quiet import quiet_transformers
from turngym.agents.models.smollm2 import smollm2_folder
from turngym.agents.models.tiny import build_tiny

BUILT_IN = ("tiny", "smollm2-135m")


def load_model(
    spec: str | os.PathLike[str], *, device: str = "auto", dtype: str | torch.dtype = "auto", seed: int = 0
) -> LoadedModel:
    """Load a model and its tokenizer. Nothing is ever downloaded.

    Args:
        spec: `tiny` (fresh random weights), `smollm2-135m`, or a folder as `save_pretrained` writes it.
        device: such as `cpu` or `cuda:0`; "auto" takes a GPU if there is one.
        dtype: such as `float32`; "auto" keeps that of the weights as they are stored (`tiny` float32,
            `smollm2-135m` bfloat16).
        seed: decides the weights of `tiny`.

    Raises:
        ModelNotFound: no such built-in model or folder, or one that is not whole; the message says what was looked
            for.
        ValueError: no such dtype.
    """
    chosen_dtype = _dtype(dtype)
    with quiet_transformers():
        loaded = build_tiny(seed=seed) if spec == "tiny" else _load_folder(spec, chosen_dtype)
    if chosen_dtype is not None:
        loaded.model.to(chosen_dtype)
    loaded.model.to(("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device)
    loaded.model.eval()
    return loaded


def save_checkpoint(loaded: LoadedModel, folder: str | os.PathLike[str]) -> None:
    """Write an ordinary folder: weights (safetensors), tokenizer, chat template, configuration, generation
    config.

    `from_pretrained` of the transformers library and `vllm serve` load it. The folder appears whole or not at
    all; one that is there already is replaced.

    Raises:
        OSError: the disk is full, or the place cannot be written; an older checkpoint is still there.
    """
    with quiet_transformers(), whole_folder(Path(folder)) as fresh:
        loaded.model.save_pretrained(fresh)
        loaded.tokenizer.save_pretrained(fresh)
        _generation_config(loaded).save_pretrained(fresh)


def _load_folder(spec: str | os.PathLike[str], dtype: torch.dtype | None) -> LoadedModel:
    name = os.fspath(spec)
    folder = smollm2_folder() if name == "smollm2-135m" else Path(name).expanduser()
    if not (folder / "config.json").is_file():
        problem = "has no config.json" if folder.is_dir() else "does not exist"
        raise ModelNotFound(
            f"no model {name!r}: it is none of those built in ({', '.join(BUILT_IN)}), "
            f"and the folder {folder.absolute()} {problem}"
        )
    # Code that comes with a folder is never run.
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype or "auto", output_loading_info=True, **options
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    except Exception as error:  # the library has no error of its own for a folder that is not whole
        first_line = next(iter(str(error).splitlines()), "")
        raise ModelNotFound(
            f"the model in {folder.absolute()} cannot be loaded ({type(error).__name__}: {first_line}): "
            "is it whole, with weights and tokenizer, as save_pretrained writes it?"
        ) from error
    # The library would fill what is missing with random numbers.
    missing = sorted({*found["missing_keys"], *(key for key, *_ in found["mismatched_keys"])})
    if missing:
        raise ModelNotFound(
            f"the weights in {folder.absolute()} are not those of its config.json: {len(missing)} tensors are missing "
            f"or of another shape, such as {', '.join(missing[:3])}. An adapter must be merged first"
        )
    for key in (
        "local_files_only",
        "is_local",
    ):  # how it was loaded is nothing that a checkpoint should carry on
        tokenizer.init_kwargs.pop(key, None)
    return LoadedModel(model, tokenizer, name)


def _generation_config(loaded: LoadedModel) -> GenerationConfig:
    """The model's own, with every token that ends a turn among its end tokens."""
    config = GenerationConfig(**loaded.model.generation_config.to_diff_dict())
    config.eos_token_id = end_ids(config.eos_token_id, loaded.tokenizer)
    if config.pad_token_id is None:
        config.pad_token_id = loaded.tokenizer.pad_token_id
    return config


def end_ids(configured: int | list[int] | None, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Every token that ends a turn: those of a generation config, then the tokenizer's."""
    return list(dict.fromkeys((*_as_list(configured), *_as_list(tokenizer.eos_token_id))))


def _as_list(ids: int | list[int] | None) -> list[int]:
    if ids is None:
        return []
    return [ids] if isinstance(ids, int) else list(ids)


def _dtype(dtype: str | torch.dtype) -> torch.dtype | None:
    if dtype == "auto":
        return None
    found = dtype if isinstance(dtype, torch.dtype) else getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise ValueError(f"no dtype {dtype!r}: give auto, float32, bfloat16 or float16")
    return found
