"""Continuous batching, one step at a time: which requests run, in which rows, and what is sampled.

    submit ─→ waiting ─→ a row of the cache ─→ prefill ─→ decode, decode, … ─→ finished

A step gives waiting jobs a row, runs the prompts that are new, and then one token of every row. Rows keep
their keys and values when a job leaves, for the next turn of the same session; and a context that begins like
another one copies that beginning instead of computing it, which is how the samples of a group share their
prompt.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from turngym.agents.engines.forward import choose_forward
from turngym.agents.engines.job import Job
from turngym.agents.engines.sampling import SamplingRows, draw
from turngym.agents.engines.slots import IntArray, SlotTable
from turngym.agents.errors import EngineError

# A beginning that another row holds is copied if that saves at least this many tokens.
_WORTH_COPYING = 8
# Busy rows are moved together when there is more than one row in this many that is not busy among them.
_SPARSE = 1.5
# Every forward pass has a fixed cost, so prompts are collected: they start when there is one for so many
# running jobs, and at the latest after so many steps.
_RUNNING_PER_START, _MOST_STEPS_HELD = 4, 8
# Longer and shorter contexts share a forward pass unless that adds more padding than this, in tokens.
_MOST_PADDING = 256


@dataclass(slots=True)
class EngineStats:
    """What an engine has done so far."""

    forwards: int = 0
    """Runs of the model."""
    prompt_tokens: int = 0
    """Tokens of all contexts, as requested."""
    computed_tokens: int = 0
    """Tokens run through the model: what was new in the contexts, and the sampled ones."""
    sampled_tokens: int = 0
    """Tokens sampled."""


class Batcher:
    """Runs jobs together; synchronous, so that a step is never interrupted half-way.

    Args:
        model: any causal language model.
        max_context: the most tokens of a context, the sampled ones included.
        slots: the most contexts that run, or stay cached, at once.
        prefill_tokens: the most tokens, padding included, of one forward pass.
    """

    def __init__(self, model: PreTrainedModel, *, max_context: int, slots: int, prefill_tokens: int) -> None:
        self.stats = EngineStats()
        self._table = SlotTable(slots)
        self._forward, self.why_not_cached = choose_forward(model, self._table, max_context=max_context)
        self._prefill_tokens = prefill_tokens
        self._waiting: list[Job] = []
        self._running: dict[str, Job] = {}  # by session
        self._steps_held = 0

    @property
    def has_work(self) -> bool:
        """True while a job waits or runs."""
        return bool(self._waiting or self._running)

    def submit(self, job: Job) -> None:
        """Put a job in the queue. Jobs of one session run one after the other."""
        self._waiting.append(job)

    @torch.no_grad()
    def step(self, policy_version: int) -> None:
        """Sample at least one token for every running job that needs no more than the tokens it has.

        Anything that the model raises is handed to every job as an EngineError; the batcher stays usable.
        """
        try:
            if self._is_time_to_start():
                self._admit()
            self._prefill(policy_version)
            self._decode(policy_version)
        except Exception as error:  # noqa: BLE001 - whatever a model raises must reach those who wait for it
            self.fail_all(EngineError(f"the model failed: {type(error).__name__}: {error}"))
            self._forward.clear()

    def abandon(self, job: Job) -> None:
        """Give up a job, if it is still here; its row is free for others at once."""
        if job in self._waiting:
            self._waiting.remove(job)
        elif self._running.get(job.session) is job:
            self._leave(job)

    def abandon_all(self) -> None:
        """Give up every job without a word."""
        for job in (*self._running.values(), *self._waiting):
            self.abandon(job)

    def release(self, session: str) -> None:
        """Forget a session; a job of it that is not finished fails. Unknown sessions are ignored."""
        for job in [job for job in (*self._running.values(), *self._waiting) if job.session == session]:
            self.abandon(job)
            job.fail(EngineError(f"session {session!r} was released while it was generating"))
        row = self._table.row_of(session)
        if row is not None:
            self._table.release(row)

    def forget_cached(self) -> None:
        """Nothing computed so far is valid any more; running jobs compute their contexts again."""
        self._forward.clear()

    def fail_all(self, error: EngineError) -> None:
        """End every job with an error."""
        for job in (*self._running.values(), *self._waiting):
            job.fail(error)
        self.abandon_all()

    def _leave(self, job: Job) -> None:
        del self._running[job.session]
        row = self._table.row_of(job.session)
        if row is not None:
            self._table.stop(row)

    # Admission

    def _is_time_to_start(self) -> bool:
        startable = min(len(self._waiting), self._table.max_slots - len(self._running))
        if startable < 1:
            return False
        self._steps_held += 1
        if startable * _RUNNING_PER_START < len(self._running) and self._steps_held < _MOST_STEPS_HELD:
            return False
        self._steps_held = 0
        return True

    def _admit(self) -> None:
        """Give waiting jobs a row: first those whose session has one, since their episodes have begun."""
        newcomers, still_waiting = [], []
        for job in self._waiting:
            row = self._table.row_of(job.session)
            if row is not None and job.session not in self._running:
                self._start(job, row)
            else:
                newcomers.append(job)
        for job in newcomers:
            row = None if job.session in self._running else self._table.take_row(job.session)
            if row is None:
                still_waiting.append(job)
            else:
                self._start(job, row)
        self._waiting = still_waiting

    def _start(self, job: Job, row: int) -> None:
        table = self._table
        most = len(job.prompt) - 1  # the last token is run in any case: its logits are wanted
        if self._forward.reuses_cache:
            own = int(table.common_prefix(job.prompt, slice(row, row + 1))[0])
            reused = min(own, int(table.cached[row]), most)
            if reused < most / 2:  # not the next turn of what the row holds
                reused = self._share_beginning(job, row, reused, most)
        else:
            reused = most
        self._running[job.session] = job
        table.start(row, job.prompt, reused)
        self.stats.prompt_tokens += len(job.prompt)

    def _share_beginning(self, job: Job, row: int, reused: int, most: int) -> int:
        """Tokens that the row holds, after copying the beginning of another row if that is longer.

        A still longer one that is about to be computed is remembered, to be copied then.
        """
        table = self._table
        shared = np.minimum(table.common_prefix(job.prompt), most)
        held = np.minimum(shared, table.cached)
        best = int(held.argmax())
        if held[best] >= reused + _WORTH_COPYING:
            reused = int(held[best])
            self._forward.copy_prefix(best, row, reused)
        promised = np.where(table.is_busy, shared, 0)
        best = int(promised.argmax())
        if promised[best] >= reused + _WORTH_COPYING:
            job.donor, job.donor_length = self._job_of(best), int(promised[best])
        return reused

    # Steps

    def _todo(self) -> IntArray:
        """Tokens of each row that are still to be run; 0 for idle rows."""
        return np.where(self._table.is_busy, self._table.length - self._table.cached, 0)

    def _job_of(self, row: int) -> Job:
        session = self._table.session_of(row)
        assert session is not None, "a busy row belongs to a session"
        return self._running[session]

    def _prefill(self, policy_version: int) -> None:
        """Run all prompts up to their ends, which samples the first token of each answer."""
        while (unfinished := np.flatnonzero(self._todo() > 1)).size:
            ready = np.array([row for row in unfinished.tolist() if self._is_ready(row)], dtype=np.int64)
            # A copied beginning may leave only the last token, which joins the decode step.
            self._run(ready[self._todo()[ready] > 1], policy_version)

    def _decode(self, policy_version: int) -> None:
        """Run the last token of every row, which samples the next."""
        self._run(self._together(np.flatnonzero(self._todo() == 1)), policy_version)

    def _is_ready(self, row: int) -> bool:
        """False while the beginning that the row will copy is still being computed."""
        job, table = self._job_of(row), self._table
        if job.donor is None:
            return True
        donor_row = table.row_of(job.donor.session)
        if donor_row is not None and table.cached[donor_row] >= job.donor_length:
            self._forward.copy_prefix(donor_row, row, job.donor_length)
            table.cached[row] = job.donor_length
        elif self._running.get(job.donor.session) is job.donor:
            return False
        job.donor = None
        return True

    def _together(self, rows: IntArray) -> IntArray:
        """Move scattered rows to the front of the cache, where a batch is a slice of it."""
        count = len(rows)
        if not self._forward.reuses_cache or not count or rows[-1] < _SPARSE * count:
            return rows
        vacant = np.setdiff1d(np.arange(count), rows)
        for high, low in zip(rows[rows >= count].tolist(), vacant.tolist(), strict=True):
            self._forward.swap(high, low)
        return np.arange(count)

    def _run(self, rows: IntArray, policy_version: int) -> None:
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
                self._sample(batch, logits, policy_version)
            elif is_complete.any():
                chosen = torch.from_numpy(is_complete).to(logits.device)
                self._sample(batch[is_complete], logits[chosen], policy_version)

    def _batches(self, rows: IntArray) -> Iterator[IntArray]:
        """Rows of similar cost together; a batch costs its longest row times its number of rows."""
        cost = self._todo()[rows] if self._forward.reuses_cache else self._table.length[rows]
        order = np.argsort(cost, kind="stable")
        rows, cost = rows[order], cost[order]
        start = 0
        for end in range(1, len(rows) + 1):
            if (
                end == len(rows)
                or cost[end] * (end + 1 - start) > self._prefill_tokens
                or (cost[end] - cost[end - 1]) * (end - start) > _MOST_PADDING
            ):
                yield np.sort(rows[start:end])
                start = end

    def _sample(self, rows: IntArray, logits: Tensor, policy_version: int) -> None:
        """Draw one token for each of these rows; what is finished leaves."""
        jobs = [self._job_of(row) for row in rows.tolist()]
        noise = np.array([job.next_uniform() for job in jobs])
        tokens, logprobs = draw(logits, SamplingRows.of([job.request.sampling for job in jobs]), noise)
        self._table.append(rows, np.array(tokens))
        self.stats.sampled_tokens += len(rows)
        for job, row, token, logprob in zip(jobs, rows.tolist(), tokens, logprobs, strict=True):
            if math.isnan(logprob):
                self._leave(job)
                self._forward.clear(row)  # its keys and values may be infinite, which no mask would hide
                job.fail(EngineError("the model's logits are not finite: its weights have diverged"))
                continue
            reason = job.add(token, logprob)
            if reason is not None:
                self._leave(job)
                job.finish(reason, policy_version)
