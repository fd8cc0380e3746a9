"""One optimiser step: clip the gradient, set the learning rate by the schedule, apply AdamW.

Weights in 16 bits get float32 masters that AdamW works on; a learning rate of 1e-6 would vanish in bfloat16
otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from turngym.trainer.schedules import SCHEDULES


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

    def collect(self) -> None:
        """Add the gradients of 16-bit weights to float32 sums, and clear them.

        To be called after each backward pass of several: sums of many small gradients in bfloat16 stop growing.
        """
        for name, live in self._live.items():
            master = self._master[name]
            if master is not live and live.grad is not None:
                new = live.grad.to(master.dtype)
                master.grad = new if master.grad is None else master.grad.add_(new)
                live.grad = None

    def gradient_norm(self) -> float:
        """The norm of all accumulated gradients together; 0 if there are none."""
        self.collect()
        gradients = [master.grad for master in self._master.values() if master.grad is not None]
        return float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0

    def apply(self, norm: float) -> None:
        """Scale the gradient down to `max_grad_norm`, take the step, and clear the gradient.

        Args:
            norm: from `gradient_norm`.
        """
        scale = min(1.0, self._max_grad_norm / (norm + 1e-6))
        for master in self._master.values():
            if master.grad is not None:
                master.grad.mul_(scale)
        for group in self._adam.param_groups:
            group["lr"] = self.lr
        self._adam.step()
        self._copy_masters()
        self.updates += 1
        self.zero_grad()

    @torch.no_grad()
    def continue_from(self, other: Optimiser) -> None:
        """Take over the float32 masters of the optimiser that worked on the same weights before."""
        for name, master in other._master.items():
            if master is not other._live[name]:
                self._master[name].copy_(master)

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
            ValueError, TypeError, LookupError, RuntimeError: the state is damaged, or belongs to other parameters.
        """
        if state["names"] != list(self._live):
            raise ValueError("the saved optimiser state belongs to other parameters than this model's")
        self._adam.load_state_dict(state["adam"])
        with torch.no_grad():
            for name, master in state["masters"].items():
                self._master[name].copy_(master)
        self.updates = int(state["updates"])


def step_together(optimisers: Iterable[Optimiser]) -> float:
    """Take one step with each of some optimisers, or, if the gradient is not finite, with none.

    Returns:
        The norm of all their gradients together before clipping. Each clips its own.
    """
    optimisers = tuple(optimisers)
    norms = [optimiser.gradient_norm() for optimiser in optimisers]
    norm = math.hypot(*norms)
    for optimiser, own in zip(optimisers, norms, strict=True):
        if math.isfinite(norm):
            optimiser.apply(own)
        else:
            optimiser.zero_grad()
    return norm
