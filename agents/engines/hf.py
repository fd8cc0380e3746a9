"""The local engine: any causal language model of the transformers library, in this process.

Requests of many episodes run through the model together (see `batcher`): a new one joins between two decode
steps, a finished one leaves at once. Everything happens on the event loop's own thread and in a fixed order,
so the same requests give the same answers; other company in a batch changes only rounding.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from turngym.agents.engines.batcher import Batcher, EngineStats
from turngym.agents.engines.fingerprint import fingerprint
from turngym.agents.engines.job import Job
from turngym.agents.engines.sampling import check_sampling
from turngym.agents.errors import EngineError
from turngym.agents.protocols import GenerateRequest, Generation

_LOG = logging.getLogger(__name__)

# Before a step: yields to the event loop, at most so many, and so many in a row that brought no new request.
_MOST_YIELDS, _QUIET_YIELDS = 16, 3


class HFEngine:
    """An `Engine` over a transformers model in this process, which it may share with a trainer.

    Args:
        model: any causal language model. Layers that attend to the whole context are cached; for other models
            every context is recomputed at each step (see `why_not_cached`).
        max_context: the most tokens of a context, the sampled ones included; at most what the model has
            positions for.
        slots: the most contexts that run, or stay cached, at once. More sessions than slots work, but slower.
        prefill_tokens: the most tokens, padding included, of one forward pass; bounds its memory.
        policy_version: version of the weights that the model has now.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        max_context: int,
        slots: int = 64,
        prefill_tokens: int = 4096,
        policy_version: int = 0,
    ) -> None:
        if max_context < 1 or slots < 1 or prefill_tokens < 1:
            raise ValueError("max_context, slots and prefill_tokens must be at least 1")
        self._model = model
        positions = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        self._max_context = min(max_context, positions or max_context)
        self._policy_version = policy_version
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        with _evaluating(model):
            self._batcher = Batcher(
                model, max_context=self._max_context, slots=slots, prefill_tokens=prefill_tokens
            )
        if self.why_not_cached is not None:
            _LOG.warning("every token recomputes its whole context: %s", self.why_not_cached)
        self._driver: asyncio.Task[None] | None = None
        self._submitted = 0
        self._is_closed = False

    @property
    def policy_version(self) -> int:
        """Number of weight updates so far."""
        return self._policy_version

    @property
    def max_context(self) -> int:
        """The most tokens that a context may have, the sampled ones included."""
        return self._max_context

    @property
    def why_not_cached(self) -> str | None:
        """Why this model's contexts are recomputed at each step; None if they are cached."""
        return self._batcher.why_not_cached

    @property
    def stats(self) -> EngineStats:
        """What the engine has done so far."""
        return self._batcher.stats

    def describe(self) -> Mapping[str, Any]:
        """What decides its answers: the weights as they are now, and the room for a context."""
        return {"weights": fingerprint(self._model), "max_context": self._max_context}

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample one continuation; requests that wait at the same time are batched together.

        Requests of one session run one after the other. Cancelling the call frees its slot. If the context
        leaves no room for a token, nothing is sampled and the reason is "length". Greedy sampling draws from
        a point mass, so its logprobs are 0.

        Raises:
            SamplingError: sampling options out of range.
            EngineError: the context is empty, too long, or has unknown ids; the engine is closed; the model
                failed.
        """
        job = self._accept(request)
        if job.limit < 1:
            return Generation((), (), "length", self._policy_version)
        self._start_driver()
        self._batcher.submit(job)
        self._submitted += 1
        try:
            return await job.future
        finally:
            self._batcher.abandon(job)  # it is still there only if this call was cancelled

    async def release(self, session: str) -> None:
        """Forget a session. A request of it that is still running fails; unknown sessions are ignored."""
        self._batcher.release(session)

    async def update_weights(self, weights: Mapping[str, Tensor] | None, *, policy_version: int) -> None:
        """Drop everything computed with the old weights; running requests go on with the new ones.

        Args:
            weights: a state dict to load, or None if the model's parameters were already changed in place.
            policy_version: version of the new weights.

        Raises:
            EngineError: the state dict does not fit the model.
        """
        if weights is not None:
            try:
                self._model.load_state_dict(weights)
            except RuntimeError as error:
                raise EngineError(f"the new weights do not fit the model: {error}") from error
        self._policy_version = policy_version
        self._batcher.forget_cached()

    async def close(self) -> None:
        """Fail what is running and drop the cache. Safe to call twice; afterwards `generate` raises."""
        self._is_closed = True
        self._batcher.fail_all(EngineError("the engine was closed"))
        self._batcher.forget_cached()

    def _accept(self, request: GenerateRequest) -> Job:
        if self._is_closed:
            raise EngineError("the engine is closed: make a new one")
        check_sampling(request.sampling)
        size = len(request.prompt_ids)
        if not size:
            raise EngineError("the context is empty: there is nothing to continue")
        if size > self._max_context:
            raise EngineError(
                f"the context has {size} tokens, more than the engine's max_context of {self._max_context}: "
                "raise max_context, or end the episode earlier"
            )
        if min(request.prompt_ids) < 0 or max(request.prompt_ids) >= self._vocabulary:
            raise EngineError(
                f"the context has a token id outside of 0 … {self._vocabulary - 1}: wrong tokenizer?"
            )
        limit = min(request.sampling.max_tokens, self._max_context - size)
        return Job(request, asyncio.get_running_loop().create_future(), limit)

    def _start_driver(self) -> None:
        loop = asyncio.get_running_loop()
        driver = self._driver
        if driver is not None and not driver.done() and driver.get_loop().is_closed():
            self._batcher.abandon_all()  # nobody can be told any more
            driver = None
        if driver is None or driver.done():
            self._driver = loop.create_task(self._drive(), name="turngym-engine")
        elif driver.get_loop() is not loop:
            raise EngineError("this engine is busy in another event loop: use one loop, or one engine each")

    async def _drive(self) -> None:
        """Step as long as there is work; a task that lives from the first request to the last answer."""
        try:
            with _evaluating(self._model) as evaluate:
                while True:
                    await self._gather_requests()
                    if not self._batcher.has_work:
                        return
                    evaluate()
                    self._batcher.step(self._policy_version)
        except asyncio.CancelledError:
            self._batcher.fail_all(EngineError("the event loop was stopped while the engine was working"))
            raise

    async def _gather_requests(self) -> None:
        """Let finished episodes step their environments and submit the next turn: batches get large."""
        quiet = 0
        for _ in range(_MOST_YIELDS):
            before = self._submitted
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._submitted == before else 0
            if quiet == _QUIET_YIELDS:
                return


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[Callable[[], None]]:
    """Put the model into evaluation mode, now and whenever the function is called; restore it at the end."""
    training: list[torch.nn.Module] = []

    def evaluate() -> None:
        if model.training:
            training.extend(module for module in model.modules() if module.training)
            model.eval()

    evaluate()
    try:
        yield evaluate
    finally:
        for module in training:
            module.training = True
