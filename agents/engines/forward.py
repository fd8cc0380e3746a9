"""Two ways to a causal language model's next logits: with cached keys and values, or from the first token.

`CachedForward` runs only the tokens that are new. It is exact for models whose layers all attend to the whole
context, which is checked by comparing both ways on a few tokens; for any other model `FullForward` recomputes
every context. Axis letters: R rows of a batch, Q new tokens (the longest of the batch), L longest context, V
vocabulary.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from turngym.agents.engines.kv_cache import CachePlan, SlotCache
from turngym.agents.engines.llama import is_plain_llama, llama_logits
from turngym.agents.engines.slots import IntArray, SlotTable
from turngym.agents.errors import EngineError

# Up to this many rows are run per row that is needed, rather than copying the needed ones out of the cache.
_DENSE_SHARE = 1.25
# The two ways of computing may differ by rounding, relative to the spread of the logits.
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.05, torch.bfloat16: 0.2}


class LogitsFunction(Protocol):
    """A forward pass with a cache whose plan is set."""

    def __call__(
        self, model: PreTrainedModel, cache: SlotCache, ids: Tensor, positions: Tensor, mask: Tensor
    ) -> Tensor:
        """Logits after each row's last token, [R, V], from ids and positions [R, Q], mask [R, 1, Q, L]."""
        ...


def model_logits(
    model: PreTrainedModel, cache: SlotCache, ids: Tensor, positions: Tensor, mask: Tensor
) -> Tensor:
    """The model's own forward pass."""
    arguments = inspect.signature(model.forward).parameters
    # The argument was renamed within transformers 5.
    options: dict[str, Any] = {"cache" if "cache" in arguments else "past_key_values": cache}
    if "logits_to_keep" in arguments:
        options["logits_to_keep"] = 1
    output = model(input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, **options)
    logits: Tensor = output.logits[:, -1]
    return logits


class Forward(Protocol):
    """Runs rows of a slot table through the model."""

    @property
    def reuses_cache(self) -> bool:
        """True if tokens that were run once need not be run again."""
        ...

    def run(self, rows: IntArray, take: IntArray) -> Tensor:
        """Run the next `take` tokens of each row and count them as cached.

        Args:
            rows: ascending.
            take: at least 1 each, at most `length − cached`.

        Returns:
            The logits after the last token taken, [R, V].
        """
        ...

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Give a row the first tokens of another."""
        ...

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        ...

    def clear(self, row: int | None = None) -> None:
        """Forget what was computed for one row, or for all."""
        ...


class CachedForward:
    """Runs only new tokens; keys and values of earlier ones are kept in rows of a cache."""

    reuses_cache = True

    def __init__(self, model: PreTrainedModel, table: SlotTable, logits: LogitsFunction) -> None:
        self._model = model
        self._table = table
        self._logits = logits
        self._cache = SlotCache()

    def run(self, rows: IntArray, take: IntArray) -> Tensor:
        """See `Forward.run`. Padding is on the left, so that the last column holds every row's last token."""
        table = self._table
        end = table.cached[rows] + take
        length = int(end.max())
        self._cache.reserve(table.rows, length)
        batch, where = self._batch_rows(rows)
        batch_end = np.ones(len(batch), dtype=np.int64)
        batch_take = np.zeros(len(batch), dtype=np.int64)
        batch_end[where], batch_take[where] = end, take

        queries = int(take.max())
        columns = np.arange(-queries, 0)
        positions = np.maximum(batch_end[:, None] + columns, 0)  # [R, Q]; padding looks at position 0 alone
        is_real = columns >= -batch_take[:, None]
        ids = table.ids[batch[:, None], positions]
        self._cache.plan = self._plan(batch, positions, is_real, length)
        logits = self._forward(ids, positions, length)
        table.cached[rows] = end
        return logits[torch.from_numpy(where).to(logits.device)] if len(where) < len(batch) else logits

    def _batch_rows(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The cache rows to run, and where `rows` are among them.

        A few idle rows in between cost less than copying the keys and values of the others out of the cache.
        """
        dense = int(rows[-1]) + 1
        if dense <= _DENSE_SHARE * len(rows):
            return np.arange(dense), rows
        return rows, np.arange(len(rows))

    def _plan(
        self, batch: IntArray, positions: IntArray, is_real: NDArray[np.bool_], length: int
    ) -> CachePlan:
        device = self._model.device
        is_dense = int(batch[-1]) + 1 == len(batch)
        row_index, _ = real = np.nonzero(is_real)
        return CachePlan(
            rows=slice(0, len(batch)) if is_dense else torch.from_numpy(batch).to(device),
            length=length,
            source=None if is_real.all() else torch.from_numpy(np.flatnonzero(is_real)).to(device),
            target_rows=torch.from_numpy(batch[row_index]).to(device),
            target_positions=torch.from_numpy(positions[real]).to(device),
        )

    def _forward(self, ids: IntArray, positions: IntArray, length: int) -> Tensor:
        device, dtype = self._model.device, self._model.dtype
        positions_RQ = torch.from_numpy(positions).to(device)
        is_hidden = torch.arange(length, device=device) > positions_RQ[:, None, :, None]
        # An additive mask is understood by every attention implementation that takes one.
        mask = torch.zeros(is_hidden.shape, dtype=dtype, device=device).masked_fill_(
            is_hidden, torch.finfo(dtype).min
        )
        return self._logits(self._model, self._cache, torch.from_numpy(ids).to(device), positions_RQ, mask)

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Give a row the first tokens of another."""
        self._cache.reserve(self._table.rows, length)
        self._cache.copy_prefix(source, target, length)

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        self._cache.swap(a, b, int(max(self._table.cached[a], self._table.cached[b])))
        self._table.swap(a, b)

    def clear(self, row: int | None = None) -> None:
        """Forget one row or all."""
        self._cache.clear(row)
        self._table.forget_cached(row)


class FullForward:
    """Runs every context from its first token, each time. Slow, and right for any causal model."""

    reuses_cache = False

    def __init__(self, model: PreTrainedModel, table: SlotTable) -> None:
        self._model = model
        self._table = table
        self._can_choose = "logits_to_keep" in inspect.signature(model.forward).parameters

    def run(self, rows: IntArray, take: IntArray) -> Tensor:
        """See `Forward.run`. Rows are padded on the right, where a causal model cannot see it."""
        table, device = self._table, self._model.device
        end = table.cached[rows] + take
        ids = torch.from_numpy(table.ids[rows, : int(end.max())]).to(device)
        wanted, index = np.unique(end - 1, return_inverse=True)
        positions = torch.from_numpy(wanted).to(device)
        chosen = {"logits_to_keep": positions} if self._can_choose else {}
        logits: Tensor = self._model(input_ids=ids, use_cache=False, **chosen).logits
        if not self._can_choose:
            logits = logits[:, positions]
        table.cached[rows] = end
        return logits[torch.arange(len(rows), device=device), torch.from_numpy(index).to(device)]

    def copy_prefix(self, source: int, target: int, length: int) -> None:
        """Nothing is kept, so nothing is copied."""

    def swap(self, a: int, b: int) -> None:
        """Exchange two rows."""
        self._table.swap(a, b)

    def clear(self, row: int | None = None) -> None:
        """Forget one row or all."""
        self._table.forget_cached(row)


def choose_forward(
    model: PreTrainedModel, table: SlotTable, *, max_context: int
) -> tuple[Forward, str | None]:
    """The cached way where it is exact, else the full way with the reason.

    Raises:
        EngineError: the model does not continue texts at all.
    """
    contexts = _sample_contexts(model)
    try:
        want = _whole_logits(model, contexts)
    except Exception as error:
        raise EngineError(
            f"{type(model).__name__} cannot be run as a causal language model: "
            f"{type(error).__name__}: {error}"
        ) from error
    reason = _unsupported_layers(model, max_context)
    if reason is None:
        for logits in (llama_logits, model_logits) if is_plain_llama(model) else (model_logits,):
            reason = _cached_way_differs(model, logits, contexts, want)
            if reason is None:
                return CachedForward(model, table, logits), None
    return FullForward(model, table), reason


def _unsupported_layers(model: PreTrainedModel, max_context: int) -> str | None:
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    window = getattr(config, "sliding_window", None)
    if kinds:
        is_windowed = "sliding_attention" in kinds
        kinds -= {"full_attention", "sliding_attention"}
        if kinds:
            return f"layers of the kind {', '.join(sorted(kinds))} keep no keys and values of single tokens"
    else:
        # Older configurations name a window without saying which layers use it.
        is_windowed = bool(window) and getattr(config, "use_sliding_window", True)
    if is_windowed and (window is None or window < max_context):
        return f"layers attend to the last {window} tokens only, fewer than the context of {max_context}"
    return None


def _sample_contexts(model: PreTrainedModel) -> tuple[IntArray, IntArray]:
    """Two arbitrary contexts, of 11 and of 7 tokens."""
    size = model.get_input_embeddings().weight.shape[0]
    return np.arange(1, 12) * 7 % size, np.arange(1, 8) * 5 % size


def _table_of(contexts: Sequence[IntArray]) -> SlotTable:
    table = SlotTable(len(contexts))
    for row, ids in enumerate(contexts):
        table.take_row(str(row))
        table.start(row, ids, 0)
    return table


@torch.no_grad()
def _whole_logits(model: PreTrainedModel, contexts: Sequence[IntArray]) -> Tensor:
    table = _table_of(contexts)
    return FullForward(model, table).run(np.arange(len(contexts)), table.length)


@torch.no_grad()
def _cached_way_differs(
    model: PreTrainedModel, logits: LogitsFunction, contexts: Sequence[IntArray], want: Tensor
) -> str | None:
    """Run the two contexts in several passes, with a swap of rows in between, and compare."""
    cached = CachedForward(model, _table_of(contexts), logits)
    first, both = np.arange(1), np.arange(2)
    try:
        cached.run(both, np.array([6, 3]))
        cached.run(first, np.array([4]))
        cached.swap(0, 1)
        cached.run(first, np.array([3]))
        got = cached.run(both, np.array([1, 1])).flip(0)
    except Exception as error:  # noqa: BLE001 - whatever a foreign model raises, it then goes without a cache
        return f"it does not take our cache ({type(error).__name__}: {error})"
    difference = (got.float() - want.float()).abs().max()
    spread = want.float().std().clamp_min(1e-6)
    if not bool(difference <= _TOLERANCE.get(want.dtype, 0.05) * spread):
        return f"with a cache its logits differ by {float(difference / spread):.2g} of their spread"
    return None
