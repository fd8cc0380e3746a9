"""One request on its way through an engine: what is wanted, and what has been sampled so far."""

from __future__ import annotations

import asyncio

import numpy as np

from turngym.agents.engines.slots import IntArray
from turngym.agents.noise import uniforms
from turngym.agents.protocols import GenerateRequest, Generation
from turngym.agents.types import FinishReason

_NOISE_BLOCK = 32  # most turns are shorter than their limit: draw their numbers as they are needed


class Job:
    """The state of one request."""

    __slots__ = (
        "_noise", "_noise_start", "donor", "donor_length", "future", "ids", "limit", "logprobs", "prompt",
        "request", "session", "stop_ids",
    )  # fmt: skip

    def __init__(self, request: GenerateRequest, future: asyncio.Future[Generation], limit: int) -> None:
        self.request = request
        self.session = request.session
        self.future = future
        self.limit = limit
        """The most tokens to sample."""
        self.prompt: IntArray = np.array(request.prompt_ids, dtype=np.int64)
        self.stop_ids = frozenset(request.stop_ids)
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.donor: Job | None = None
        """A job whose context begins alike: once it is cached, `donor_length` tokens of it are copied."""
        self.donor_length = 0
        self._noise: list[float] = []
        self._noise_start = 0

    def next_uniform(self) -> float:
        """The number that decides the next token."""
        index = len(self.ids) - self._noise_start
        if index == len(self._noise):
            self._noise_start = len(self.ids)
            count = min(_NOISE_BLOCK, self.limit - self._noise_start)
            offset = self.request.noise_offset + self._noise_start
            self._noise = uniforms(self.request.noise, offset, count).tolist()
            index = 0
        return self._noise[index]

    def add(self, token: int, logprob: float) -> FinishReason | None:
        """Take a sampled token; says whether, and why, it was the last."""
        self.ids.append(token)
        self.logprobs.append(logprob)
        if token in self.stop_ids:
            return "stop"
        return "length" if len(self.ids) >= self.limit else None

    def finish(self, reason: FinishReason, policy_version: int) -> None:
        """Hand the result to whoever waits for it."""
        if not self.future.done():
            self.future.set_result(Generation(tuple(self.ids), tuple(self.logprobs), reason, policy_version))

    def fail(self, error: Exception) -> None:
        """Hand an error to whoever waits for the result."""
        if not self.future.done():
            self.future.set_exception(error)
