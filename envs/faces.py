"""One verb, two faces: an author writes `step` or `astep` (so too `reset`, `close`), and never both.

`install(cls)` wraps what a class wrote with the bookkeeping of `Env` and derives the other face:

    wrote sync   →  the async face calls it inline
    wrote async  →  the sync face runs it to its end, on the background event loop (inline if it never waits)

An author's method may call `super().step(action)`: bookkeeping is done once, by the outermost method.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from turngym.envs.errors import ContractError
from turngym.sandboxes import async_bridge
from turngym.sandboxes.async_bridge import run_inline

FACES = ("reset", "step", "close")


def install(cls: Any) -> None:
    """Guard the faces that this class itself wrote, and derive their twins.

    Raises:
        ContractError: both faces of one verb were written, or `async def` and name disagree.
    """
    for verb in FACES:
        sync, asynchronous = cls.__dict__.get(verb), cls.__dict__.get(f"a{verb}")
        if sync is None and asynchronous is None:
            continue
        if sync is not None and asynchronous is not None:
            raise ContractError(
                f"{cls.__name__} writes both {verb} and a{verb}: write one, the other is derived"
            )
        author = sync or asynchronous
        if inspect.iscoroutinefunction(author) is not (sync is None):
            right = f"def {verb}" if sync is None else f"async def a{verb}"
            raise ContractError(f"{cls.__name__}: write `{right}` (or the other face of it)")
        setattr(cls, f"_{verb}_owner", cls)
        setattr(cls, f"_{verb}_waits", sync is None)
        both = _SYNC[verb](cls, author) if sync is not None else _ASYNC[verb](cls, author)
        for name, face in zip((verb, f"a{verb}"), both, strict=True):
            face.__name__, face.__qualname__ = name, f"{cls.__qualname__}.{name}"
            setattr(cls, name, face)


Pair = tuple[Callable[..., Any], Callable[..., Any]]


def _sync_step(cls: type, author: Callable[..., Any]) -> Pair:
    @functools.wraps(author)
    def step(self: Any, action: Any) -> Any:
        if self._step_owner is not cls:  # called through super() by a subclass's own step
            return author(self, action)
        message = self._accept(action)
        return self._conclude(message, author(self, message))

    async def astep(self: Any, action: Any) -> Any:
        return step(self, action)

    return step, astep


def _async_step(cls: type, author: Callable[..., Any]) -> Pair:
    @functools.wraps(author)
    async def astep(self: Any, action: Any) -> Any:
        if self._step_owner is not cls:
            return await author(self, action)
        message = self._accept(action)
        return self._conclude(message, await author(self, message))

    def step(self: Any, action: Any) -> Any:
        coroutine = astep(self, action)
        return run_inline(coroutine) if self._inline_owner is cls else async_bridge.run(coroutine)

    return step, astep


def _sync_reset(cls: type, author: Callable[..., Any]) -> Pair:
    @functools.wraps(author)
    def reset(self: Any, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self._reset_owner is not cls:
            return author(self, seed=seed, options=options)
        self._begin(seed, options)
        return self._opened(author(self, seed=seed, options=options))

    async def areset(self: Any, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return reset(self, seed=seed, options=options)

    return reset, areset


def _async_reset(cls: type, author: Callable[..., Any]) -> Pair:
    @functools.wraps(author)
    async def areset(self: Any, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if self._reset_owner is not cls:
            return await author(self, seed=seed, options=options)
        self._begin(seed, options)
        return self._opened(await author(self, seed=seed, options=options))

    def reset(self: Any, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return async_bridge.run(areset(self, seed=seed, options=options))

    return reset, areset


def _sync_close(cls: type, author: Callable[..., Any]) -> Pair:
    @functools.wraps(author)
    def close(self: Any) -> None:
        if self._close_owner is not cls or self._closing():
            author(self)

    async def aclose(self: Any) -> None:
        close(self)

    return close, aclose


def _async_close(cls: type, author: Callable[..., Any]) -> Pair:
    @functools.wraps(author)
    async def aclose(self: Any) -> None:
        if self._close_owner is not cls or self._closing():
            await author(self)

    def close(self: Any) -> None:
        async_bridge.run(aclose(self))

    return close, aclose


_SYNC: dict[str, Callable[[type, Callable[..., Any]], Pair]] = {
    "step": _sync_step,
    "reset": _sync_reset,
    "close": _sync_close,
}
_ASYNC: dict[str, Callable[[type, Callable[..., Any]], Pair]] = {
    "step": _async_step,
    "reset": _async_reset,
    "close": _async_close,
}
