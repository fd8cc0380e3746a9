"""The local engine: continuous batching over any causal language model of the transformers library.

Requests of many episodes run through the model together. A new one joins between two decode steps, a finished one
leaves at once, and its keys and values stay for the episode's next turn. Everything happens on the event loop's own
thread and in a fixed order, so the same requests give the same answers; other company in a batch changes only rounding.

    generate() ─→ waiting ─→ row of the cache ─→ prefill ─→ decode, decode, … ─→ Generation
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from turngym.agents.engines.forward import choose_forward
from turngym.agents.engines.job import Job
from turngym.agents.engines.sampling import SamplingRows, check_sampling, draw
from turngym.agents.engines.slots import IntArray, SlotTable
from turngym.agents.errors import EngineError
from turngym.agents.protocols import Generation, GenerateRequest

# A beginning shared with another row is copied if that saves at least this many tokens.
_WORTH_COPYING = 8
# Rows in use are moved together when fewer than one in this many of the rows in between is in use.
_SPARSE = 1.5
# A row joins a batch of shorter ones if it is at most this many times as long as the shortest.
_MAX_PADDING = 2
# Bounds on waiting for more requests before a step: yields to the event loop, in all and without a new request.
_MAX_YIELDS, _QUIET_YIELDS = 16, 3


@dataclass(slots=True)
class EngineStats:
    """What an engine has done so far."""

    forwards: int = 0
    """Runs of the model."""
    prompt_tokens: int = 0
    """Tokens of all contexts, as requested."""
    computed_tokens: int = 0
    """Tokens run through the model, the sampled ones included."""
    sampled_tokens: int = 0
    """Tokens sampled."""


class HFEngine:
    """An `Engine` over a transformers model in this process, which it may share with a trainer.

    Args:
        model: any causal language model. Layers that attend to the whole context are cached; for other models every
            context is recomputed at each step (see `why_not_cached`).
        max_context: the most tokens of a context, the sampled ones included.
        slots: the most contexts that run, or stay cached, at once. More sessions than slots work, but slower.
        prefill_tokens: the most tokens (padding included) of one forward pass over prompts; bounds its memory.
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
        self.stats = EngineStats()
        self._model = model
        self._max_context = max_context
        self._prefill_tokens = prefill_tokens
        self._policy_version = policy_version
        self._vocabulary = int(model.get_input_embeddings().weight.shape[0])
        self._table = SlotTable(slots)
        with _evaluating(model):
            self._forward, self._why_not_cached = choose_forward(model, self._table, max_context=max_context)
        self._waiting: list[Job] = []
        self._jobs: dict[str, Job] = {}  # running ones, by session
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
        return self._why_not_cached

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample one continuation; requests that wait at the same time are batched together.

        Requests of one session run one after the other. Cancelling the call frees its slot. If the context leaves no
        room for a token, nothing is sampled and the reason is "length".

        Raises:
            SamplingError: sampling options out of range.
            EngineError: an empty or too long context, an unknown token id, a closed engine, or the model failed.
        """
        job = self._accept(request)
        if job.limit < 1:
            return Generation((), (), "length", self._policy_version)
        self._waiting.append(job)
        self._submitted += 1
        self._start_driver()
        try:
            return await job.future
        finally:
            if job.future.cancelled():
                self._abandon(job)

    async def release(self, session: str) -> None:
        """Forget a session. A request of it that is still running fails; unknown sessions are ignored."""
        for job in [job for job in (*self._jobs.values(), *self._waiting) if job.request.session == session]:
            self._abandon(job)
            job.fail(EngineError(f"session {session!r} was released while it was generating"))
        row = self._table.row_of(session)
        if row is not None:
            self._table.release(row)

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
        self._forward.clear()

    async def close(self) -> None:
        """Fail what is running and release the caches. Safe to call twice; afterwards `generate` raises."""
        self._is_closed = True
        self._fail_all(EngineError("the engine was closed"))
        self._forward.clear()

    # ── requests ────────────────────────────────────────────────────────────────────────────────────────────────

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
            raise EngineError(f"the context has a token id outside of 0 … {self._vocabulary - 1}: wrong tokenizer?")
        limit = min(request.sampling.max_tokens, self._max_context - size)
        return Job(request, asyncio.get_running_loop().create_future(), limit)

    def _abandon(self, job: Job) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
        session = job.request.session
        if self._jobs.get(session) is job:
            self._leave(session)

    def _leave(self, session: str) -> None:
        del self._jobs[session]
        row = self._table.row_of(session)
        if row is not None:
            self._table.stop(row)

    def _fail_all(self, error: EngineError) -> None:
        for job in (*self._jobs.values(), *self._waiting):
            job.fail(error)
        self._waiting.clear()
        for session in list(self._jobs):
            self._leave(session)

    # ── the driver ──────────────────────────────────────────────────────────────────────────────────────────────

    def _start_driver(self) -> None:
        loop = asyncio.get_running_loop()
        if self._driver is not None and not self._driver.done() and not self._driver.get_loop().is_closed():
            if self._driver.get_loop() is not loop:
                raise EngineError("this engine is busy in another event loop: use one loop, or one engine for each")
            return
        self._driver = loop.create_task(self._drive(), name="turngym-engine")

    async def _drive(self) -> None:
        try:
            with _evaluating(self._model) as evaluate:
                while True:
                    await self._gather_requests()
                    if not self._jobs and not self._waiting:
                        break
                    evaluate()
                    self._step()
        except asyncio.CancelledError:
            self._fail_all(EngineError("the event loop was stopped while the engine was working"))
            raise

    async def _gather_requests(self) -> None:
        """Let finished episodes step their environments and submit the next turn, so that batches are large."""
        quiet = 0
        for _ in range(_MAX_YIELDS):
            before = self._submitted
            await asyncio.sleep(0)
            quiet = quiet + 1 if self._submitted == before else 0
            if quiet == _QUIET_YIELDS:
                return

    @torch.no_grad()
    def _step(self) -> None:
        try:
            self._admit()
            self._prefill()
            self._decode()
        except Exception as error:  # noqa: BLE001 - whatever a model raises must reach those who wait for it
            self._fail_all(EngineError(f"the model failed: {type(error).__name__}: {error}"))
            self._forward.clear()

    # ── admission ───────────────────────────────────────────────────────────────────────────────────────────────

    def _admit(self) -> None:
        """Give waiting requests a row: first those whose session has one, so that started episodes come first."""
        still_waiting = []
        for job in self._waiting:
            row = self._table.row_of(job.request.session)
            if row is None or job.request.session in self._jobs:
                still_waiting.append(job)
            else:
                self._start(job, row)
        self._waiting = []
        for job in still_waiting:
            row = None
            if job.request.session not in self._jobs:
                row = self._table.take_row(job.request.session)
            if row is None:
                self._waiting.append(job)
            else:
                self._start(job, row)

    def _start(self, job: Job, row: int) -> None:
        table = self._table
        held = np.zeros(1, dtype=np.int64)
        if self._forward.reuses_cache:
            # At least the last token is run again: its logits are wanted.
            shared = np.minimum(table.common_prefix(job.prompt), len(job.prompt) - 1)
            held = np.minimum(shared, table.cached)
            self._choose_donor(job, row, shared, held)
        else:
            held = np.full(table.rows, len(job.prompt) - 1)
        self._jobs[job.request.session] = job
        table.start(row, job.prompt, int(held[row]))
        self.stats.prompt_tokens += len(job.prompt)

    def _choose_donor(self, job: Job, row: int, shared: IntArray, held: IntArray) -> None:
        """Copy a beginning that another row holds, or remember to copy one that is about to be computed."""
        best = int(held.argmax())
        if held[best] >= held[row] + _WORTH_COPYING:
            self._forward.copy_prefix(best, row, int(held[best]))
            held[row] = held[best]
        promised = np.where(self._table.is_busy, shared, 0)
        best = int(promised.argmax())
        session = self._table.session_of(best)
        if promised[best] >= held[row] + _WORTH_COPYING and session is not None:
            job.donor, job.donor_length = self._jobs[session], int(promised[best])

    # ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _todo(self) -> IntArray:
        """Tokens of each row that are still to be run; 0 for idle rows."""
        return np.where(self._table.is_busy, self._table.length - self._table.cached, 0)

    def _job_of(self, row: int) -> Job:
        return self._jobs[self._table.session_of(row) or ""]

    def _prefill(self) -> None:
        """Run all prompts up to their ends, which samples the first token of each answer."""
        while (unfinished := np.flatnonzero(self._todo() > 1)).size:
            ready = np.array([row for row in unfinished.tolist() if self._is_ready(row)], dtype=np.int64)
            self._run(ready[self._todo()[ready] > 1])  # a copied beginning may leave the last token only

    def _decode(self) -> None:
        """Run the last sampled token of every row, which samples the next."""
        self._run(self._together(np.flatnonzero(self._todo() == 1)))

    def _is_ready(self, row: int) -> bool:
        """False while the beginning that the row will copy is still being computed."""
        job, table = self._job_of(row), self._table
        if job.donor is None:
            return True
        donor_session = job.donor.request.session
        donor_row = table.row_of(donor_session)
        if donor_row is not None and table.cached[donor_row] >= job.donor_length:
            self._forward.copy_prefix(donor_row, row, job.donor_length)
            table.cached[row] = job.donor_length
        elif self._jobs.get(donor_session) is job.donor:
            return False
        job.donor = None
        return True

    def _together(self, rows: IntArray) -> IntArray:
        """Move scattered rows to the front of the cache, where a batch is a slice of it."""
        count = len(rows)
        if self._forward.reuses_cache and count and rows[-1] + 1 > _SPARSE * count + 1:
            vacant = np.setdiff1d(np.arange(count), rows)
            for high, low in zip(rows[rows >= count].tolist(), vacant.tolist(), strict=True):
                self._forward.swap(high, low)
            return np.arange(count)
        return rows

    def _run(self, rows: IntArray) -> None:
        """Run these rows' next tokens, in batches, and sample where a context is complete."""
        for batch in self._batches(rows):
            take = self._todo()[batch]
            if self._forward.reuses_cache:
                take = np.minimum(take, self._prefill_tokens)
            logits = self._forward.run(batch, take)
            self.stats.forwards += 1
            self.stats.computed_tokens += int(take.sum())
            is_complete = self._table.cached[batch] == self._table.length[batch]
            if is_complete.all():
                self._sample(batch, logits)
            elif is_complete.any():
                self._sample(batch[is_complete], logits[torch.from_numpy(is_complete).to(logits.device)])

    def _batches(self, rows: IntArray) -> Iterator[IntArray]:
        """Rows of similar cost together; a batch costs its longest row, times its number of rows."""
        table = self._table
        cost = self._todo()[rows] if self._forward.reuses_cache else table.length[rows]
        order = np.argsort(cost, kind="stable")
        rows, cost = rows[order], cost[order]
        start = 0
        for end in range(1, len(rows) + 1):
            if (
                end == len(rows)
                or cost[end] * (end + 1 - start) > self._prefill_tokens
                or cost[end] > _MAX_PADDING * cost[start]
            ):
                yield np.sort(rows[start:end])
                start = end

    def _sample(self, rows: IntArray, logits: Tensor) -> None:
        """Draw one token for each of these rows; what is finished leaves."""
        jobs = [self._job_of(row) for row in rows.tolist()]
        noise = np.array([job.next_uniform() for job in jobs])
        tokens, logprobs = draw(logits, SamplingRows.of([job.request.sampling for job in jobs]), noise)
        self._table.append(rows, np.array(tokens))
        self.stats.sampled_tokens += len(rows)
        for job, row, token, logprob in zip(jobs, rows.tolist(), tokens, logprobs, strict=True):
            if math.isnan(logprob):
                self._leave(job.request.session)
                self._forward.clear(row)
                job.fail(EngineError("the model's logits are not finite: its weights have diverged"))
                continue
            reason = job.add(token, logprob)
            if reason is not None:
                self._leave(job.request.session)
                job.finish(reason, self._policy_version)


@contextmanager
def _evaluating(model: PreTrainedModel) -> Iterator[Callable[[], None]]:
    """Put the model into evaluation mode, whenever the function given is called, and restore its mode at the end."""
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
