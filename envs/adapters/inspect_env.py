"""A task of Inspect (UK AI Security Institute) as an environment. Extra: `inspect`.

    env = InspectEnv(my_task())

The task's own solver runs, with its own tools; wherever it asks its model, the policy answers. So multi-turn agents
such as `react` and `basic_agent` work as they are. Its scorers grade at the end: the first one pays, the others are
metrics, unless `weights` says otherwise.

What does not exist here and is refused by name: Inspect's own sandboxes, solvers that rewrite the conversation,
images. Limits of an Inspect task are not taken over: turngym's own hold.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any, ClassVar

from turngym.envs.adapters.inspect_run import Asked, Ended, Run, opening_messages, own_message
from turngym.envs.env import Env, ResetResult, StepResult
from turngym.envs.errors import ContractError, GradingError
from turngym.envs.messages import Message
from turngym.envs.replay import Replay
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import ListTasks, Task
from turngym.sandboxes.async_bridge import hop


class InspectEnv(Env):
    """Play the samples of an Inspect task.

    A fork repeats the agent's messages to a new run of the solver; one that answers differently then is an
    infrastructure failure.

    Args:
        task: an `inspect_ai.Task`.
        weights: of its scorers by name (or by key, where a score is a mapping); what is left out is a metric.
            Default: 1 for the first score.
        test_share: share of samples that are for testing: a hash of each sample's id decides.
        max_turns: a rule: after so many messages the episode ends with 0, without asking the scorers.
        reward_range: bounds of the weighted sum.
        split: "train" or "test".

    Metrics: every score that has no weight, and `success`: 1 if the upper bound of the range was reached.

    Raises:
        ContractError: the task has no scorer, or needs what is not here; the message says what.
    """

    kind: ClassVar[str] = "adapter"
    shared: ClassVar[tuple[str, ...]] = ("_foreign", "_samples", "_weights")

    def __init__(
        self,
        task: Any,
        *,
        weights: Mapping[str, float] | None = None,
        test_share: float = 0.2,
        max_turns: int | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        split: str | None = None,
    ) -> None:
        if not task.scorer:
            raise ContractError(f"task {task.name!r} has no scorer: nothing would be paid")
        samples = list(task.dataset)
        if task.sandbox is not None or any(sample.sandbox is not None for sample in samples):
            raise ContractError(f"task {task.name!r} needs Inspect's sandboxes, which turngym does not start")
        self._foreign = task
        self._weights = dict(weights) if weights is not None else None
        self._samples: dict[str, Any] = {}
        splits: dict[str, list[Task]] = {"train": [], "test": []}
        for number, sample in enumerate(samples):
            name = str(sample.id if sample.id is not None else number)
            if name in self._samples:
                raise ContractError(f"two samples of task {task.name!r} have the id {name!r}")
            self._samples[name] = sample.model_copy(update={"id": name})
            prompt = tuple(own_message(message) for message in opening_messages(sample))
            target = {"target": sample.target, "metadata": sample.metadata, "choices": sample.choices}
            home = "test" if _place(name) < test_share else "train"
            splits[home].append(Task(id=name, prompt=prompt, target=target))
        super().__init__(tasks=ListTasks(**splits), split=split)
        self.max_turns = max_turns
        self.reward_range = reward_range
        self._run: Replay[Run, Message, Asked | Ended] | None = None

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Start the solver, and show what it asks first."""
        await self._leave()
        _, info = await super().areset(seed=seed, options=options)
        sample, task = self._samples[self.task.id], self._foreign
        self._run = Replay(
            start=lambda: hop(_begin(task, sample)),
            say=lambda run, message: hop(run.say(message)),
            stop=lambda run: hop(run.stop()),
        )
        self._actions = 0
        opening = (await self._run.live()).opening
        if isinstance(opening, Ended):
            raise ContractError(f"the solver of task {task.name!r} ended without asking its model")
        self.tools = opening.tools
        self.action_space = ActionSpace(tools=self.tools)
        return opening.messages, info

    async def astep(self, action: Message) -> StepResult:
        """Let the solver go on with the agent's message."""
        assert self._run is not None
        self._actions += 1
        answer = await self._run.send(action)
        if isinstance(answer, Asked):
            if self._actions != self.max_turns:
                return answer.messages, 0.0, False, False, {}
            await self._leave()
            return answer.messages, 0.0, True, False, {"metrics": {"success": 0.0}}
        await self._leave()
        paid, components, metrics = self._graded(answer)
        return (), paid, True, False, {"reward_components": components, "metrics": metrics}

    async def aclose(self) -> None:
        """Abandon the solver."""
        await self._leave()

    async def _leave(self) -> None:
        if self._run is not None:
            await self._run.aclose()

    def _graded(self, ended: Ended) -> tuple[float, dict[str, float], dict[str, float]]:
        weights = self._weights if self._weights is not None else {ended.scores[0][0]: 1.0}
        scores = dict(ended.scores)
        if unknown := weights.keys() - scores.keys():
            raise GradingError(f"no score {min(unknown)!r}; there are {', '.join(scores)}")
        paid = sum(weights[name] * scores[name] for name in weights)
        low, high = self.reward_range
        if not (math.isfinite(paid) and low - 1e-9 <= paid <= high + 1e-9):
            raise GradingError(f"task {self.task.id} was paid {paid}, outside of [{low:g}, {high:g}]")
        metrics = {name: value for name, value in scores.items() if name not in weights}
        metrics.setdefault("success", float(math.isclose(paid, high, abs_tol=1e-9)))
        return paid, {name: scores[name] for name in weights}, metrics


async def _begin(task: Any, sample: Any) -> Run:
    return await Run(task, sample).begin()


def _place(name: str) -> float:
    """A number in [0, 1) that the name alone decides."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
