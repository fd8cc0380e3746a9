"""One optimiser step: clip the gradient, set the learning rate by the schedule, apply AdamW.

Weights in 16 bits get float32 masters that AdamW works on; a learning rate of 1e-6 would vanish in bfloat16
otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn


def _constant(_: float) -> float:
    return 1.0


def _linear(progress: float) -> float:
    return 1.0 - progress


def _cosine(progress: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * progress))


SCHEDULES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {"constant": _constant, "linear": _linear, "cosine": _cosine}
)
"""Share of the learning rate left, by the share of the updates done after the warm-up (0 … 1)."""


def learning_rate(update: int, *, lr: float, schedule: str, warmup: int, total: int) -> float:
    """Learning rate of update number `update` (from 0): a linear warm-up, then the schedule down to
    `total`."""
    if update < warmup:
        return lr * (update + 1) / (warmup + 1)
    progress = (update - warmup) / max(1, total - warmup)
    return lr * SCHEDULES[schedule](min(1.0, progress))


class Optimiser:
    """AdamW with clipping and a schedule, over named parameters; its state is a plain dictionary of
    tensors."""

    def __init__(
        self,
        parameters: Iterable[tuple[str, nn.Parameter]],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
        max_grad_norm: float = 1.0,
        schedule: str = "constant",
        warmup: int = 0,
        total: int = 1,
    ) -> None:
        """Set up the optimiser.

        Args:
            parameters: names and parameters; each is taken once, and frozen ones are left out.
            lr: the peak learning rate.
            betas: AdamW's.
            weight_decay: decoupled; matrices only, not biases or norms.
            max_grad_norm: the gradient of all parameters together is scaled down to this norm.
            schedule: a name of `SCHEDULES`.
            warmup: updates of linear warm-up.
            total: updates until the schedule ends.
        """
        self._live = {name: p for name, p in parameters if p.requires_grad}
        self._master = {
            name: p if p.dtype in (torch.float32, torch.float64) else p.detach().float().requires_grad_()
            for name, p in self._live.items()
        }
        matrices = [p for p in self._master.values() if p.ndim >= 2]
        others = [p for p in self._master.values() if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
        self._adam = torch.optim.AdamW(groups, lr=lr, betas=betas, fused=True)
        self._max_grad_norm = max_grad_norm
        self._plan = {"lr": lr, "schedule": schedule, "warmup": warmup, "total": total}
        self.updates = 0
        """Number of steps taken."""

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        return learning_rate(self.updates, **self._plan)  # type: ignore[arg-type]

    def step(self) -> float:
        """Apply the accumulated gradient and clear it.

        Returns:
            The gradient's norm before clipping. If it is not finite, nothing was applied.
        """
        gradients = [p.grad for p in self._live.values() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm([g.float() for g in gradients])) if gradients else 0.0
        if math.isfinite(norm):
            scale = min(1.0, self._max_grad_norm / (norm + 1e-6))
            for name, live in self._live.items():
                self._master[name].grad = (
                    None if live.grad is None else live.grad.to(self._master[name].dtype) * scale
                )
            for group in self._adam.param_groups:
                group["lr"] = self.lr
            self._adam.step()
            self._copy_masters()
            self.updates += 1
        self.zero_grad()
        return norm

    @torch.no_grad()
    def _copy_masters(self) -> None:
        for name, live in self._live.items():
            if live is not self._master[name]:
                live.copy_(self._master[name])

    def zero_grad(self) -> None:
        """Forget the accumulated gradient."""
        for name, live in self._live.items():
            live.grad = None
            self._master[name].grad = None

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to continue with the same numbers."""
        masters: dict[str, Tensor] = {
            n: m.detach() for n, m in self._master.items() if m is not self._live[n]
        }
        return {
            "adam": self._adam.state_dict(),
            "masters": masters,
            "updates": self.updates,
            "names": list(self._live),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state of the same parameters.

        Raises:
            ValueError: the state belongs to other parameters.
        """
        if state["names"] != list(self._live):
            raise ValueError("the saved optimiser state belongs to other parameters than this model's")
        self._adam.load_state_dict(state["adam"])
        with torch.no_grad():
            for name, master in state["masters"].items():
                self._master[name].copy_(master)
        self.updates = int(state["updates"])
