"""Steps an environment from an event loop without blocking it: inline, awaited, or in a thread of its own.

| the environment                                 | how it is driven                              |
|-------------------------------------------------|-----------------------------------------------|
| authored async; bare, or in wrappers of ours    | `astep` is awaited                            |
| authored sync, not blocking (wrapped or bare)   | `step` is called inline: a hop costs 20–35 µs |
| blocking, or async inside Gymnasium's wrappers  | outermost `step`, in the driver's own thread  |
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, cast

import gymnasium

from turngym.envs.errors import ContractError
from turngym.envs.tasks import TaskSet

T = TypeVar("T")

CLOSE_TIMEOUT_S = 10.0
"""A `close` that takes longer is left behind in its thread."""

_log = logging.getLogger(__name__)


class _AsyncFace(Protocol):
    """The async half of an environment of ours. The driver closes it through `aclose` where there is one."""

    async def areset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]: ...

    async def astep(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]: ...


class EnvDriver:
    """One environment and the thread it may need. Not for two episodes at once.

    Raises:
        ContractError: a wrapper makes whole conversations of its observations.
    """

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        self.env = env
        core = env.unwrapped
        is_async = bool(getattr(core, "native_async", False))
        if env.has_wrapper_attr("observes_whole_conversation"):
            raise ContractError(
                "a rollout keeps the conversation itself: take the wrapper WholeConversation off the environment"
            )
        # Wrappers of Gymnasium forward no attributes. One of ours says it itself: another may stand below it.
        self._face = cast(_AsyncFace, env) if getattr(env, "native_async", False) else None
        needs_thread = bool(getattr(core, "blocking", False)) or is_async
        self._thread = _Thread() if needs_thread and self._face is None else None

    @property
    def env_id(self) -> str:
        """The id under which the environment was made, or its class name."""
        spec = self.env.unwrapped.spec
        return spec.id if spec is not None else type(self.env.unwrapped).__name__

    @property
    def tasks(self) -> TaskSet:
        """The environment's task set.

        Raises:
            TypeError: it has none.
        """
        tasks = getattr(self.env.unwrapped, "tasks", None)
        if not isinstance(tasks, TaskSet):
            raise TypeError(f"{self.env_id} has no task set: it is no environment of turngym's")
        return tasks

    async def reset(self, *, seed: int, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        """`env.reset`, driven as the table above says."""
        if self._face is not None:
            return await self._face.areset(seed=seed, options=options)
        if self._thread is not None:
            return await self._thread.call(lambda: self.env.reset(seed=seed, options=options))
        return self.env.reset(seed=seed, options=options)

    async def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """`env.step`, driven as the table above says."""
        if self._face is not None:
            return await self._face.astep(action)
        if self._thread is not None:
            return await self._thread.call(lambda: self.env.step(action))
        return self.env.step(action)

    async def close(self) -> None:
        """Close the environment. Never raises, never hangs: a failure is logged, for the episode is over."""
        aclose = getattr(self.env, "aclose", None)
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                if self._thread is not None:
                    await self._thread.call(self.env.close)
                elif (
                    aclose is not None
                ):  # on the loop where it was stepped: its connections belong to that loop
                    await aclose()
                else:
                    self.env.close()
        except TimeoutError:
            _log.warning("%s did not close within %.0f s; it was left behind", self.env_id, CLOSE_TIMEOUT_S)
        except Exception:  # noqa: BLE001 (an environment that cannot close takes no batch with it: law 11)
            _log.warning("closing %s failed", self.env_id, exc_info=True)
        finally:
            self.release()

    def release(self) -> None:
        """Let the thread go, but leave the environment open for its owner."""
        if self._thread is not None:
            self._thread.stop()


class _Job(Generic[T]):
    """One call on its way through the thread, and the future that waits for it."""

    def __init__(self, function: Callable[[], T], loop: asyncio.AbstractEventLoop) -> None:
        self.function = function
        self.loop = loop
        self.future: asyncio.Future[T] = loop.create_future()

    def run(self) -> None:
        try:
            result = self.function()
        except BaseException as error:  # noqa: BLE001 - carried to the waiting coroutine
            self._report(self._fail, error)
        else:
            self._report(self._succeed, result)

    def _report(self, callback: Callable[[Any], None], value: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits any more
            self.loop.call_soon_threadsafe(callback, value)

    def _succeed(self, result: T) -> None:
        if not self.future.done():
            self.future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        if not self.future.done():
            if isinstance(error, StopIteration):  # a future cannot carry it
                error = RuntimeError(f"StopIteration: {error}")
            self.future.set_exception(error)


class _Thread:
    """A daemon thread that runs calls in order.

    A `ThreadPoolExecutor` joins its threads when Python exits, so that one hung step would keep the process
    alive for ever; and its size would bound how many blocking environments can run at once.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._started = False

    async def call(self, function: Callable[[], T]) -> T:
        """Run the function in the thread. If the caller is cancelled, the function still runs to its end."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._work, name="turngym-env", daemon=True).start()
        job = _Job(function, asyncio.get_running_loop())
        self._jobs.put(job)
        return await job.future

    def stop(self) -> None:
        """End the thread after the calls that wait."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
