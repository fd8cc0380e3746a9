"""Snapshot, restore and fork of an environment inside any wrappers, Gymnasium's own among them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import gymnasium

from turngym.envs.env import Env, Snapshot
from turngym.envs.errors import ContractError

Chain = TypeVar("Chain", bound=gymnasium.Env[Any, Any])

_SHARED = ("_action_space", "_observation_space", "_metadata", "_cached_spec", "_saved_kwargs")
"""Attributes of Gymnasium's wrappers that describe and do not change."""


@dataclass(frozen=True, slots=True)
class ChainSnapshot:
    """The state of an environment and of the wrappers around it."""

    layers: tuple[tuple[gymnasium.Wrapper[Any, Any, Any, Any], Mapping[str, Any]], ...]
    """The wrappers that it was taken from, outermost first, with copies of their attributes."""
    core: Snapshot
    """The environment's own."""


def snapshot_of(env: gymnasium.Env[Any, Any]) -> ChainSnapshot:
    """The state of the environment and of each wrapper."""
    layers, core = _chain(env)
    return ChainSnapshot(
        tuple((layer, _copied(layer, layer.__dict__, layer, layer.env)) for layer in layers), core.snapshot()
    )


def restore_to(env: gymnasium.Env[Any, Any], snapshot: ChainSnapshot) -> None:
    """Give the environment and each wrapper the state of a snapshot.

    Raises:
        TypeError: it is of other wrappers, or of another environment.
    """
    layers, core = _chain(env)
    kinds = [type(layer).__name__ for layer, _ in snapshot.layers]
    if kinds != [type(layer).__name__ for layer in layers]:
        raise TypeError(f"a snapshot of {' in '.join(reversed(kinds))} does not fit these wrappers")
    core.restore(snapshot.core)
    for layer, (owner, attributes) in zip(layers, snapshot.layers, strict=True):
        inner = layer.env
        state = _copied(owner, attributes, layer, inner)
        layer.__dict__.clear()
        layer.__dict__.update(state | {"env": inner})


def fork_of(env: Chain) -> Chain:
    """An independent environment with wrappers of its own, in the same state."""
    layers, core = _chain(env)
    twin: gymnasium.Env[Any, Any] = core.fork()
    for layer in reversed(layers):
        outer = object.__new__(type(layer))
        outer.__dict__.update(_copied(layer, layer.__dict__, outer, twin) | {"env": twin})
        twin = outer
    return cast(Chain, twin)


def _chain(env: gymnasium.Env[Any, Any]) -> tuple[list[gymnasium.Wrapper[Any, Any, Any, Any]], Env]:
    layers: list[gymnasium.Wrapper[Any, Any, Any, Any]] = []
    while isinstance(env, gymnasium.Wrapper):
        layers.append(env)
        env = env.env
    if not isinstance(env, Env):
        raise ContractError(f"{type(env).__name__} is no environment of turngym's: it cannot be forked")
    return layers, env


def _copied(
    owner: gymnasium.Wrapper[Any, Any, Any, Any],
    attributes: Mapping[str, Any],
    layer: gymnasium.Wrapper[Any, Any, Any, Any],
    inner: gymnasium.Env[Any, Any],
) -> dict[str, Any]:
    """Attributes of `owner` copied for `layer`: references to the owner and to what it wraps are the layer's."""
    kept = {name for cls in type(owner).__mro__ for name in cls.__dict__.get("shared", ())}.union(_SHARED)
    memo: dict[int, Any] = {id(attributes[name]): attributes[name] for name in kept if name in attributes}
    memo[id(owner)] = layer
    memo[id(owner.env)] = inner
    return {name: copy.deepcopy(value, memo) for name, value in attributes.items() if name != "env"}
