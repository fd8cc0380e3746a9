"""A model in this process as an agent: loaded from a folder, behind the transformers engine, talking chat."""

from __future__ import annotations

from collections.abc import Iterable

from turngym.agents.chat import ChatAgent
from turngym.agents.engines.hf import HFEngine
from turngym.agents.models import LoadedModel, load_model
from turngym.agents.models.loading import end_ids
from turngym.agents.protocols import Sampling
from turngym.agents.rendering import choose_renderer


def local_agent(
    model: str,
    *,
    name: str,
    sampling: Sampling,
    system_prompt: str | None,
    renderer: str,
    device: str,
    dtype: str,
    max_context: int,
    slots: int,
    seed: int,
) -> ChatAgent:
    """Load a model and put it to work; see `make_agent` for the arguments.

    Args:
        model: a built-in model or a folder.
        name: the spec that names the agent.

    Raises:
        ModelNotFound: there is no such model.
        TemplateError: its chat template cannot be rendered.
    """
    loaded = load_model(model, device=device, dtype=dtype, seed=seed)
    loaded.model.eval()
    engine = HFEngine(loaded.model, max_context=max_context, slots=slots)
    stop_ids = stop_ids_of(loaded)
    chosen = choose_renderer(loaded.tokenizer, renderer=renderer, stop_ids=stop_ids)
    return ChatAgent(engine, chosen, sampling, name=name, system_prompt=system_prompt)


def stop_ids_of(loaded: LoadedModel) -> Iterable[int]:
    """What the model's generation config and its tokenizer call the end: what a saved copy of it will say too."""
    config = getattr(loaded.model, "generation_config", None)
    return end_ids(getattr(config, "eos_token_id", None), loaded.tokenizer)
