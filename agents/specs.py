"""Agents by name: `expert`, `null`, `random` (reference policies of the environment), and local models.

make_agent("expert", "turngym/Calculator-v0")
make_agent("hf:runs/demo/checkpoint", "turngym/Calculator-v0", sampling=Sampling(temperature=0))
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turngym.agents.errors import BadSpec
from turngym.agents.protocols import Agent, Sampling
from turngym.agents.simple import PolicyAgent
from turngym.envs import errors as env_errors
from turngym.envs import reference_policy

BUILT_IN_MODELS: Final = ("tiny", "smollm2-135m")
"""Models that need no folder."""

_DEFAULT_SAMPLING: Final = Sampling()


def make_agent(
    spec: str,
    env_id: str,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    sampling: Sampling = _DEFAULT_SAMPLING,
    system_prompt: str | None = None,
    renderer: str = "auto",
    device: str = "auto",
    dtype: str = "auto",
    max_context: int = 4096,
    slots: int = 64,
    seed: int = 0,
) -> Agent:
    """The agent that a spec names.

    Args:
        spec: the name of one of the environment's reference policies (`expert`, `null`, `random`, …), a
            built-in model (`tiny`, `smollm2-135m`), or `hf:PATH` for a local folder in Hugging Face's
            format.
        env_id: the environment that it will play.
        env_kwargs: arguments of the environment, on which its reference policies may depend.
        sampling: how a model draws its tokens.
        system_prompt: replaces the environment's own, for a model.
        renderer: who renders a model's chat template.
        device: where a model runs.
        dtype: type of a model's weights.
        max_context: the most tokens of one episode, for a model.
        slots: episodes that a model generates for at once.
        seed: of a built-in model's random weights.

    Raises:
        BadSpec: it names no agent.
        ModelNotFound: there is no such model folder.
        MissingExtra: models need `pip install "turngym[train]"`.
        UnknownEnv: there is no such environment.
    """
    if not spec.startswith("hf:") and spec not in BUILT_IN_MODELS:
        return _policy_agent(spec, env_id, env_kwargs or {})
    model = spec.removeprefix("hf:")
    try:
        Path(model).expanduser()
    except RuntimeError as error:
        raise BadSpec(f"no agent {spec!r}: {model.partition('/')[0]} is nobody's home folder here") from error
    try:
        from turngym.agents.local import local_agent
    except ModuleNotFoundError as error:
        raise env_errors.MissingExtra(
            f'the agent {spec!r} needs {error.name}: pip install "turngym[train]"'
        ) from error
    return local_agent(
        model,
        name=spec,
        sampling=sampling,
        system_prompt=system_prompt,
        renderer=renderer,
        device=device,
        dtype=dtype,
        max_context=max_context,
        slots=slots,
        seed=seed,
    )


def _policy_agent(name: str, env_id: str, env_kwargs: Mapping[str, Any]) -> Agent:
    try:
        return PolicyAgent(reference_policy(env_id, name, **env_kwargs), name)
    except env_errors.UnknownPolicy as error:
        models = ", ".join(BUILT_IN_MODELS)
        raise BadSpec(f"no agent {name!r}: {error}; the models are {models} and hf:PATH") from error
