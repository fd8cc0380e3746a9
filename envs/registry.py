"""Environments by id, on top of Gymnasium's registry: `register`, `make`, `spec`, `list_envs`.

Other packages add theirs through the entry-point group `turngym.envs`; they are loaded on the first unknown
id and by `list_envs`, and one that fails to load is named in a warning and left out.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import gymnasium
from gymnasium.envs import registration
from gymnasium.envs.registration import EnvSpec

from turngym.envs.env import Env, policies_of
from turngym.envs.errors import (
    ContractError,
    EnvError,
    MissingExtra,
    UnknownArgument,
    UnknownEnv,
    UnknownPolicy,
)
from turngym.envs.policies import ReferencePolicy

ENTRY_POINTS = "turngym.envs"
Maker = TypeVar("Maker", bound="str | Callable[..., Env]")


@dataclass(frozen=True, slots=True)
class _Details:
    """What Gymnasium's record has no place for."""

    kind: str | None
    summary: str | None
    extras: tuple[str, ...]
    policies: Mapping[str, ReferencePolicy]


@dataclass(frozen=True, slots=True)
class EnvListing:
    """One line of `list_envs`."""

    id: str
    """The id to make it by."""
    kind: str
    """What sort of environment it is."""
    summary: str
    """What it is about, in one line."""
    splits: tuple[str, ...] = ()
    """Names of its task splits."""
    max_turns: int | None = None
    """Its own rule about turns, if it has one."""
    extras: tuple[str, ...] = ()
    """Optional dependencies that it needs: `pip install "turngym[…]"`."""
    problem: str | None = None
    """Why it cannot be made here; None if it can."""
    sizes: tuple[int | None, ...] = ()
    """Number of tasks in each split; None where it is endless."""
    lacks_extra: bool = False
    """True if it cannot be made because an extra is not installed; `problem` says how to install it."""


_details: dict[str, _Details] = {}
_loaded_plugins: set[str] = set()


@overload
def register(
    id: str,
    entry_point: str | Callable[..., Env],
    *,
    kwargs: Mapping[str, Any] | None = None,
    kind: str | None = None,
    summary: str | None = None,
    extras: Sequence[str] = (),
    policies: Mapping[str, ReferencePolicy] | None = None,
    nondeterministic: bool = False,
) -> None: ...
@overload
def register(
    id: str,
    *,
    kwargs: Mapping[str, Any] | None = None,
    kind: str | None = None,
    summary: str | None = None,
    extras: Sequence[str] = (),
    policies: Mapping[str, ReferencePolicy] | None = None,
    nondeterministic: bool = False,
) -> Callable[[Maker], Maker]: ...
def register(
    id: str,
    entry_point: str | Callable[..., Env] | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    kind: str | None = None,
    summary: str | None = None,
    extras: Sequence[str] = (),
    policies: Mapping[str, ReferencePolicy] | None = None,
    nondeterministic: bool = False,
) -> Callable[[Maker], Maker] | None:
    """Make an environment available by id, here and in `gymnasium.make`; without entry point, a decorator.

    Args:
        id: `namespace/Name-v0`.
        entry_point: the class, a function that returns the environment, or "package.module:Name" (imported
            when made).
        kwargs: arguments for it, which `make(id, …)` overrides.
        kind: for listings; default: the class's.
        summary: one line for listings; default: the first line of the class's docstring.
        extras: names of turngym's optional dependencies that it needs.
        policies: reference policies, over those of the class.
        nondeterministic: True if the same seed and actions may give different results.
    """
    details = _Details(kind, summary, tuple(extras), dict(policies or {}))

    def enter(maker: Maker) -> Maker:
        gymnasium.register(
            id,
            maker,
            kwargs=dict(kwargs or {}),
            nondeterministic=nondeterministic,
            order_enforce=False,  # ours says itself what is out of order
        )
        _details[id] = details
        return maker

    if entry_point is None:
        return enter
    enter(entry_point)
    return None


def make(id: str, /, *, split: str | None = None, **kwargs: Any) -> Env:
    """Make an environment: the bare one, without Gymnasium's wrappers (`gymnasium.make` adds those).

    Args:
        id: such as "turngym/Calculator-v0"; the version may be left out, and "package:id" imports the package
            first.
        split: which tasks to draw from; default "train".
        kwargs: arguments of the environment.

    Raises:
        UnknownEnv: no such id; names the nearest ones.
        UnknownArgument: the environment takes no argument of that name; names those that it takes.
        ContractError: the id names something that is no turngym environment.
        Exception: whatever the environment itself raises.
    """
    known = spec(id)
    if split is not None:
        kwargs["split"] = split
    try:
        env = gymnasium.make(known, disable_env_checker=True, max_episode_steps=-1, **kwargs).unwrapped
    except TypeError as error:
        _check_arguments(known, kwargs)
        if isinstance(error.__cause__, TypeError):  # Gymnasium repeats the environment's in its own words
            raise error.__cause__ from None
        raise
    if not isinstance(env, Env):
        raise ContractError(
            f"{known.id} is a plain Gymnasium environment, not one of turngym's: use gymnasium.make"
        )
    return env


def spec(id: str) -> EnvSpec:
    """Gymnasium's record of an environment.

    Raises:
        UnknownEnv: no such id; names the nearest ones.
    """
    module, _, name = id.rpartition(":")
    if module:
        _import(module, id)
    found = _find(name)
    if found is None:
        load_plugins()
        found = _find(name)
    if found is None:
        raise UnknownEnv(_unknown(name))
    return found


def list_envs() -> tuple[EnvListing, ...]:
    """All environments that were registered with turngym, plug-ins included, by id."""
    load_plugins()
    return tuple(_listing(id) for id in sorted(_details) if id in registration.registry)


def reference_policy(env_id: str, name: str, /, **kwargs: Any) -> ReferencePolicy:
    """A player without a model: "expert", "null", "random", or another that the environment has.

    Args:
        env_id: id of the environment.
        name: name of the policy.
        kwargs: arguments of the environment.

    Raises:
        UnknownEnv: no such environment.
        UnknownPolicy: the environment has no policy of that name.
    """
    known = spec(env_id)
    env = make(known.id, **kwargs)
    registered = _details[known.id].policies if known.id in _details else {}
    policies = policies_of(env) | dict(registered)
    env.close()
    if name not in policies:
        raise UnknownPolicy(
            f"{known.id} has no reference policy {name!r}; it has {', '.join(sorted(policies))}"
        )
    return policies[name]


def load_plugins() -> None:
    """Import what other packages announce, once; a broken one is named in a warning and skipped."""
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        key = f"{point.name} = {point.value}"
        if key in _loaded_plugins:
            continue
        _loaded_plugins.add(key)
        try:
            loaded = point.load()
            if callable(loaded):
                loaded()
        except Exception as error:  # noqa: BLE001 (one broken package must not hide the others)
            package = point.dist.name if point.dist is not None else "an unknown package"
            warnings.warn(
                f"the environments of {package} ({key}) could not be loaded: {type(error).__name__}: {error}",
                stacklevel=3,
            )


def what_went_wrong(what: str, error: Exception) -> str:
    """What failed and why, in one line. An error of ours says both itself; an author's may be of any kind."""
    if isinstance(error, EnvError):
        return str(error)
    text = " ".join(str(error).split())
    return f"{what}: {type(error).__name__}" + (f": {text}" if text else "")


def _import(module: str, id: str) -> None:
    try:
        importlib.import_module(module)
    except EnvError:
        raise
    except Exception as error:
        what = f"no environment {id!r}: the module {module!r} cannot be imported"
        raise UnknownEnv(what_went_wrong(what, error)) from error


def _check_arguments(known: EnvSpec, kwargs: Mapping[str, Any]) -> None:
    """Find the arguments that an environment does not take."""
    taken = _arguments(known)
    unknown = [name for name in kwargs if taken is not None and name not in taken]
    if not unknown or taken is None:
        return
    near = difflib.get_close_matches(unknown[0], taken, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(taken) or 'none'}"
    raise UnknownArgument(f"{known.id} takes no argument {unknown[0]!r}; {hint}")


def _arguments(known: EnvSpec) -> tuple[str, ...] | None:
    """Names of the arguments of an environment, those that it hands on to its base classes included; None if it
    takes any."""
    point = known.entry_point
    maker: Any = registration.load_env_creator(point) if isinstance(point, str) else point
    is_class = inspect.isclass(maker)
    bases = [base for base in maker.__mro__ if "__init__" in vars(base)] if is_class else []
    names: list[str] = []
    for function in [base.__init__ for base in bases] or [maker]:
        parameters = list(inspect.signature(function).parameters.values())[is_class:]  # without self
        names += [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            return tuple(dict.fromkeys(names))
    return None


def _find(name: str) -> EnvSpec | None:
    if name in registration.registry:
        return registration.registry[name]
    versions = [
        one
        for one in registration.registry.values()
        if registration.get_env_id(one.namespace, one.name, None) == name
    ]
    return max(versions, key=lambda one: one.version or 0, default=None)


def _unknown(name: str) -> str:
    # Nearest by whole id, then by bare name: "Calculator-v0" is nearer to "turngym/Calculator-v0" than it
    # looks.
    by_name = {id.rpartition("/")[2].lower(): id for id in _details}
    lowered = {id.lower(): id for id in _details}
    near = [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3)]
    near += [
        by_name[match] for match in difflib.get_close_matches(name.rpartition("/")[2].lower(), by_name, n=3)
    ]
    nearest = list(dict.fromkeys(near))[:3]
    hint = f"did you mean {', '.join(nearest)}?" if nearest else f"there are {', '.join(sorted(_details))}"
    return f"no environment {name!r}; {hint}"


def _listing(id: str) -> EnvListing:
    details = _details[id]
    try:
        env = make(id)
        try:
            sizes = tuple(env.tasks.size(split) for split in env.tasks.splits)
            listing = EnvListing(
                id,
                *_described(details, type(env)),
                env.tasks.splits,
                env.max_turns,
                details.extras,
                sizes=sizes,
            )
        finally:
            env.close()
    except Exception as error:  # noqa: BLE001 (one that cannot be made here is listed with the reason)
        problem = what_went_wrong("could not be made", error)
        kind, summary = _described(details, _maker(id))
        return EnvListing(
            id,
            kind,
            summary,
            extras=details.extras,
            problem=problem,
            lacks_extra=isinstance(error, MissingExtra),
        )
    return listing


def _described(details: _Details, maker: Any) -> tuple[str, str]:
    """Kind and summary: as registered, or else the class's own."""
    is_env = isinstance(maker, type) and issubclass(maker, Env)
    kind = details.kind or (maker.kind if is_env else "")
    return kind, details.summary or (maker.__doc__ if is_env and maker.__doc__ else "").strip().partition(
        "\n"
    )[0]


def _maker(id: str) -> Any:
    """The class or function that an id is registered with; None if it cannot be imported."""
    point = registration.registry[id].entry_point
    try:
        return registration.load_env_creator(point) if isinstance(point, str) else point
    except Exception:  # noqa: BLE001 (the listing says already what is wrong)
        return None
