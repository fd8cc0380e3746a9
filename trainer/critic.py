"""The critic: a value head on the policy's own trunk, or on a trunk of its own.

V_t is read from the hidden state that produces token t's logits, so it is the value *before* token t is
known.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from turngym.trainer.forward import Rows, at_action_places, before_actions, hidden_states, trunk_of

Trunk = Literal["shared", "separate"]


@dataclass(frozen=True, slots=True)
class ValueReading:
    """What the critic predicts."""

    values: Float[Tensor, "B T"]
    """V_t before each action token; 0 elsewhere."""
    final: Float[Tensor, "B"]
    """V after the position asked for in each row; 0 where none was asked for."""


class Critic(nn.Module):
    """Predicts the return from a hidden state. It starts at 0 everywhere, whatever the trunk says."""

    def __init__(self, hidden_size: int, *, trunk: nn.Module | None = None) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = nn.Linear(hidden_size, 1)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @classmethod
    def of(cls, model: Any, trunk: Trunk) -> Critic:
        """A critic for a policy: on the policy's trunk, or on a copy of it that learns apart.

        The head stays in float32 at least: returns do not fit into the eight bits of bfloat16's mantissa.
        """
        width = int(model.get_output_embeddings().weight.shape[1])
        critic = cls(width, trunk=copy.deepcopy(trunk_of(model)) if trunk == "separate" else None)
        critic.head.to(device=model.device, dtype=torch.promote_types(model.dtype, torch.float32))
        return critic

    def read(
        self, policy_hidden: Float[Tensor, "B T D"], rows: Rows, final_position: Int[Tensor, "B"]
    ) -> ValueReading:
        """Values before the action tokens, and after one more position of some rows.

        Args:
            policy_hidden: last hidden states of the policy's trunk, used where the trunk is shared.
            rows: the sequences.
            final_position: where to read V(final) of each row; −1 for rows that need none.
        """
        hidden = policy_hidden if self.trunk is None else hidden_states(self.trunk, rows)
        values = at_action_places(self._value(before_actions(hidden, rows.is_action)), rows.is_action)
        ends = final_position >= 0
        last = self._value(hidden[ends, final_position[ends]])
        return ValueReading(values, values.new_zeros(len(ends)).masked_scatter(ends, last))

    def _value(self, states: Float[Tensor, "n D"]) -> Float[Tensor, "n"]:
        value: Tensor = self.head(states.to(self.head.weight.dtype)).squeeze(-1)
        return value
