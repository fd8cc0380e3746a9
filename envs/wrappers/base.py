"""A wrapper with both faces: what it changes is written once, and holds for `step` and for `astep`.

class Polite(Wrapper):
    def on_step(self, action, result):
        observation, *rest = result
        return (*observation, user("Thank you.")), *rest
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from turngym.envs.env import Observation, ResetResult, StepResult
from turngym.envs.errors import EpisodeOver
from turngym.envs.wrappers.chain import ChainSnapshot, fork_of, restore_to, snapshot_of


class Wrapper(gymnasium.Wrapper[Observation, Any, Observation, Any], RecordConstructorArgs):
    """What stands around an environment of turngym's, or around another wrapper of it.

    A subclass writes `on_reset`, `on_action`, `on_step`, all of which only compute. State that it keeps in
    attributes is copied by `snapshot` and `fork`, but for the attributes that it names in `shared`.

    Args:
        env: what is wrapped.
        arguments: those of the subclass's constructor, so that `gymnasium.make(env.spec)` can make it again.
    """

    shared: ClassVar[tuple[str, ...]] = ()
    """Attributes that forks share instead of copying."""

    def __init__(self, env: gymnasium.Env[Observation, Any], **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)
        gymnasium.Wrapper.__init__(self, env)
        self._is_over = False

    @property
    def native_async(self) -> bool:
        """True if what is wrapped may wait in a loop, and nothing in between hides its awaited face."""
        return bool(getattr(self.env, "native_async", False))

    def on_reset(self, result: ResetResult) -> ResetResult:
        """What `reset` gives, given what the wrapped environment gave."""
        return result

    def on_action(self, action: Any) -> Any:
        """What the wrapped environment is given, given the action."""
        return action

    def on_step(self, action: Any, result: StepResult) -> StepResult:  # noqa: ARG002 (what authors override)
        """What `step` gives, given the action and what the wrapped environment gave."""
        return result

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Start an episode; arguments and errors as `Env.reset`."""
        return self._began(self.env.reset(seed=seed, options=options))

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """`reset`, awaited."""
        face: Any = self.env
        if hasattr(face, "areset"):
            return self._began(await face.areset(seed=seed, options=options))
        return self._began(face.reset(seed=seed, options=options))

    def step(self, action: Any) -> StepResult:
        """Take one action; values and errors as `Env.step`."""
        inner = self._allowed(action)
        return self._ended(self.on_step(action, self.env.step(inner)))  # type: ignore[arg-type]

    async def astep(self, action: Any) -> StepResult:
        """`step`, awaited."""
        face: Any = self.env
        inner = self._allowed(action)
        result = await face.astep(inner) if hasattr(face, "astep") else face.step(inner)
        return self._ended(self.on_step(action, result))

    async def aclose(self) -> None:
        """`close`, awaited."""
        face: Any = self.env
        if hasattr(face, "aclose"):
            await face.aclose()
        else:
            face.close()

    def snapshot(self) -> ChainSnapshot:
        """The state of the environment and of every wrapper around it, up to this one."""
        return snapshot_of(self)

    def restore(self, snapshot: ChainSnapshot) -> None:
        """Go back (or over) to a state; the same actions then give the same results.

        Raises:
            TypeError: the snapshot is of other wrappers, or of another environment.
        """
        restore_to(self, snapshot)

    def fork(self) -> Self:
        """An independent environment with wrappers of its own in the same state."""
        return fork_of(self)

    def _began(self, result: ResetResult) -> ResetResult:
        self._is_over = False
        return self.on_reset(result)

    def _allowed(self, action: Any) -> Any:
        if self._is_over:
            raise EpisodeOver("the episode is over: call reset")
        return self.on_action(action)

    def _ended(self, result: StepResult) -> StepResult:
        self._is_over = result[2] or result[3]
        return result


def truncated(result: StepResult) -> StepResult:
    """The result with the episode cut after it; one that has ended by its own rules stays as it is."""
    observation, reward, terminated, was_truncated, info = result
    if terminated or was_truncated:
        return result
    return observation, reward, False, True, {"metrics": {}} | info
