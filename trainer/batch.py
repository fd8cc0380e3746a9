"""The facts of a training step as tensors, and nothing that is computed from them.

A row is a *segment* of an episode. Axis letters: B rows, T positions, E episodes, K reward components.
`pack` turns trajectories into a `Batch`; credit turns a batch (and values) into `Targets`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from turngym.agents.types import Trajectory
from turngym.trainer.errors import UnplacedReward


@dataclass(frozen=True, slots=True)
class Batch:
    """Facts only. Positions beyond a row's length hold `pad_id`, False, 0 and turn −1 and must never be read."""

    ids: Int[Tensor, "B T"]
    """Token ids."""
    is_real: Bool[Tensor, "B T"]
    """True where a row has a token at all (not padding). Decided by length, never by comparing with a pad id."""
    is_action: Bool[Tensor, "B T"]
    """True on sampled tokens."""
    behaviour_logprobs: Float[Tensor, "B T"]
    """Nats, at action tokens."""
    rewards: Float[Tensor, "B T"]
    """The environment's reward only; on the last action token of the turn that earned it."""
    turn: Int[Tensor, "B T"]
    """Index of the turn that added the token; −1 at padding."""
    policy_version: Int[Tensor, "B T"]
    """Version of the policy that sampled the token; −1 where not an action."""
    episode: Int[Tensor, "B"]
    """Episode of each row."""
    segment: Int[Tensor, "B"]
    """Number of the row within its episode, in order."""
    terminated: Bool[Tensor, "E"]
    """The episode reached a terminal state."""
    truncated: Bool[Tensor, "E"]
    """The episode was cut while it could have gone on."""
    group: Int[Tensor, "E"]
    """Group (task) of each episode."""
    anchor: Int[Tensor, "B T"]
    """Number of the state that the token's turn started from; −1 where the environment names none."""
    reward_components: Float[Tensor, "E K"]
    """Sum over the episode of each named reward, unweighted; NaN where it was not computed."""
    component_names: tuple[str, ...]
    """Names of the K components."""
    bootstrap_row: Int[Tensor, "E"]
    """Row where V(final) is read; −1 where there is none."""
    bootstrap_position: Int[Tensor, "E"]
    """Position in that row: the last token of what the next action would have seen; −1 where there is none."""
    bootstrap_turn: Int[Tensor, "E"]
    """Turn that V(final) belongs to: the one after the last, or the last if it was cut in its middle; −1 where
    there is none."""

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return int(self.terminated.shape[0])


@dataclass(frozen=True, slots=True)
class Targets:
    """What credit assigns to the action tokens. Undefined (0) elsewhere."""

    advantages: Float[Tensor, "B T"]
    """Advantage of each action token."""
    returns: Float[Tensor, "B T"]
    """Target of the critic at each action token (before any whitening)."""


def pack(
    trajectories: Sequence[Trajectory],
    groups: Sequence[int],
    *,
    pad_id: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Batch:
    """Pack trainable trajectories, one row per segment.

    Args:
        trajectories: E episodes with tokens and a score.
        groups: the group of each episode.
        pad_id: filler of `ids`; any id will do, since no mask is derived from it.
        dtype: of logprobs and rewards.

    Raises:
        UnplacedReward: an episode has a reward but no action token at or before the turn that earned it.
        ValueError: nothing to pack, or a failed episode among the trajectories.
    """
    if not trajectories or len(trajectories) != len(groups):
        raise ValueError(
            f"{len(trajectories)} trajectories and {len(groups)} groups: give one group to each of at least one"
        )
    rows: list[_Row] = []
    bootstraps: list[tuple[int, int, int]] = []
    anchors: dict[tuple[int, str], int] = {}
    for index, trajectory in enumerate(trajectories):
        if not trajectory.outcome.scored:
            raise ValueError(
                f"task {trajectory.task_id} failed ({trajectory.outcome.cause}): it has no score to learn from"
            )
        new = _rows(trajectory, index, groups[index], anchors)
        rows.extend(new)
        last = len(rows) - 1
        bootstraps.append(
            (last, len(rows[last].ids) - 1, _turn_that_follows(trajectory))
            if trajectory.outcome.truncated and new
            else (-1, -1, -1)
        )
    names = tuple(sorted({n for t in trajectories for turn in t.turns for n in turn.reward_components}))
    width = max(len(row.ids) for row in rows)

    def table(field: str, fill: float, kind: torch.dtype) -> Tensor:
        out = torch.full((len(rows), width), fill, dtype=kind)
        for i, row in enumerate(rows):
            values = getattr(row, field)
            out[i, : len(values)] = torch.tensor(values, dtype=kind)
        return out

    lengths = torch.tensor([len(row.ids) for row in rows])
    return Batch(
        ids=table("ids", pad_id, torch.long),
        is_real=torch.arange(width)[None, :] < lengths[:, None],
        is_action=table("is_action", 0, torch.bool),
        behaviour_logprobs=table("logprobs", 0.0, dtype),
        rewards=table("rewards", 0.0, dtype),
        turn=table("turn", -1, torch.long),
        policy_version=table("policy_version", -1, torch.long),
        episode=torch.tensor([row.episode for row in rows]),
        segment=torch.tensor([row.segment for row in rows]),
        terminated=torch.tensor([t.outcome.terminated for t in trajectories]),
        truncated=torch.tensor([t.outcome.truncated and not t.outcome.terminated for t in trajectories]),
        group=torch.tensor(list(groups)),
        anchor=table("anchor", -1, torch.long),
        reward_components=torch.tensor(
            [[_component(t, name) for name in names] for t in trajectories], dtype=dtype
        ).reshape(len(trajectories), len(names)),
        component_names=names,
        bootstrap_row=torch.tensor([row for row, _, _ in bootstraps]),
        bootstrap_position=torch.tensor([position for _, position, _ in bootstraps]),
        bootstrap_turn=torch.tensor([turn for _, _, turn in bootstraps]),
    )


@dataclass(slots=True)
class _Row:
    ids: Sequence[int]
    is_action: Sequence[bool]
    logprobs: Sequence[float]
    turn: Sequence[int]
    rewards: list[float]
    policy_version: list[int]
    anchor: list[int]
    episode: int
    segment: int


def _rows(
    trajectory: Trajectory, episode: int, group: int, anchors: dict[tuple[int, str], int]
) -> list[_Row]:
    rows: list[_Row] = []
    last_action_of_turn: dict[int, tuple[int, int]] = {}
    for number, segment in enumerate(trajectory.segments()):
        versions, states = [], []
        for position, (is_action, turn) in enumerate(zip(segment.is_action, segment.turn, strict=True)):
            if is_action:
                last_action_of_turn[turn] = (number, position)
            versions.append(trajectory.turns[turn].action.policy_version if is_action else -1)
            name = trajectory.turns[turn].anchor if turn < len(trajectory.turns) else None
            states.append(-1 if name is None else anchors.setdefault((group, name), len(anchors)))
        zeros = [0.0] * len(segment.ids)
        rows.append(
            _Row(
                segment.ids,
                segment.is_action,
                segment.logprobs,
                segment.turn,
                zeros,
                versions,
                states,
                episode,
                number,
            )
        )
    for index, turn_record in enumerate(trajectory.turns):
        if turn_record.reward == 0.0:
            continue
        # A turn that sampled nothing pays the last token before it; with none at all there is nowhere to pay.
        home = max((t for t in last_action_of_turn if t <= index), default=None)
        if not math.isfinite(turn_record.reward):
            raise UnplacedReward(f"turn {index} of task {trajectory.task_id} earned {turn_record.reward}")
        if home is None:
            raise UnplacedReward(
                f"turn {index} of task {trajectory.task_id} earned {turn_record.reward}, "
                "but the episode has no action token at or before it"
            )
        row, position = last_action_of_turn[home]
        rows[row].rewards[position] += turn_record.reward
    return rows


def _turn_that_follows(trajectory: Trajectory) -> int:
    """The turn in which an episode that was cut would have gone on.

    Nothing may have come after a whole turn: an environment that truncates with an empty observation, or an
    observation too large to keep.
    """
    turns = trajectory.turns
    in_the_middle = turns[-1].action.finish_reason == "length" and not trajectory.final_context_ids
    return len(turns) - in_the_middle


def _component(trajectory: Trajectory, name: str) -> float:
    paid = [turn.reward_components[name] for turn in trajectory.turns if name in turn.reward_components]
    return sum(paid) if paid else math.nan
