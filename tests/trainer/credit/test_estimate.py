"""Targets of a whole batch, for every row of the algorithm table: the laws that no algorithm may break."""

from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turngym.trainer.algorithms import PRESETS, Algorithm
from turngym.trainer.batch import Batch, Targets
from turngym.trainer.credit.estimate import estimate_targets

# Every preset, and its relatives that count statistics over the batch.
ROWS = [
    *PRESETS.values(),
    PRESETS["grpo"].override({"name": "grpo, batch std", "std": "batch"}),
    PRESETS["rloo"].override({"name": "rloo, normalised", "whiten": "episode"}),
    PRESETS["dr_grpo"].override({"name": "reinforce++-baseline", "whiten": "token"}),
    PRESETS["reinforce"].override({"name": "reinforce++", "whiten": "token", "gamma_token": 0.9}),
    PRESETS["ppo"].override(
        {"name": "turn-aware", "gamma_turn": 0.5, "lam_turn": 0.5, "gamma_token": 0.9, "whiten": "none"}
    ),
]
every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
EPISODES = 4
FEW = settings(max_examples=25, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)


def random_case(batch_of, seed: int, width: int = 9) -> tuple[Batch, Tensor, Tensor]:
    """Four episodes in two groups, one of them truncated; and what a critic says."""
    generator = torch.Generator().manual_seed(seed)
    is_action = torch.rand(EPISODES, width, generator=generator) < 0.6
    is_action[:, 2] = True
    rewards = torch.randn(EPISODES, width, dtype=torch.float64, generator=generator)
    values = torch.randn(EPISODES, width, dtype=torch.float64, generator=generator)
    final_values = torch.randn(EPISODES, dtype=torch.float64, generator=generator)
    truncated = torch.tensor([False, True, False, False])
    batch = batch_of(
        torch.where(is_action, rewards, 0),
        is_action,
        terminated=~truncated,
        truncated=truncated,
        group=torch.tensor([0, 1, 0, 1]),
        bootstrap_row=torch.where(truncated, 1, -1),
        bootstrap_position=torch.where(truncated, width - 1, -1),
        bootstrap_turn=torch.where(truncated, width, -1),  # the final context belongs to a turn of its own
    )
    batch.turn[1, -1] = width
    batch.is_action[1, -1] = False
    return batch, values, final_values


def targets(row: Algorithm, batch: Batch, values: Tensor, final_values: Tensor) -> Targets:
    given_values = {"values": values, "final_values": final_values} if row.critic else {}
    return estimate_targets(row, batch, **given_values)


def at_actions(batch: Batch, found: Targets) -> Tensor:
    """Advantages and returns of the action tokens, in the order of (episode, segment, position)."""
    order = torch.argsort(batch.episode * 1000 + batch.segment, stable=True)
    acts = batch.is_action[order]
    return torch.stack([found.advantages[order][acts], found.returns[order][acts]])


@every_row
@given(seed=SEEDS, junk=st.sampled_from([3.0, torch.inf, torch.nan]))
@FEW
def test_law_03_nothing_is_read_at_environment_tokens(
    batch_of, row: Algorithm, seed: int, junk: float
) -> None:
    batch, values, final_values = random_case(batch_of, seed)
    env = ~batch.is_action
    dirty = replace(batch, rewards=batch.rewards.masked_fill(env, junk))
    terminated = batch.terminated
    found = targets(row, batch, values, final_values)
    with_junk = targets(row, dirty, values.masked_fill(env, junk), final_values.masked_fill(terminated, junk))
    assert torch.equal(found.advantages, with_junk.advantages)
    assert torch.equal(found.returns, with_junk.returns)
    assert found.advantages[env].eq(0).all()
    assert found.returns[env].eq(0).all()


@every_row
@given(seed=SEEDS, before=st.integers(1, 3))
@FEW
def test_law_05_inserting_environment_tokens_changes_no_advantage(
    batch_of, row: Algorithm, seed: int, before: int
) -> None:
    batch, values, final_values = random_case(batch_of, seed)

    def longer(x: Tensor) -> Tensor:
        """Put `before` environment tokens in front of every third position."""
        pieces = []
        for t in range(x.shape[1]):
            gap = torch.full((len(x), before), 77).to(x.dtype) if x.dtype != torch.bool else None
            if t % 3 == 0:
                pieces.append(torch.zeros(len(x), before, dtype=torch.bool) if gap is None else gap)
            pieces.append(x[:, t : t + 1])
        return torch.cat(pieces, dim=1)

    wide = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    wide |= {
        name: longer(x) for name, x in wide.items() if isinstance(x, Tensor) and x.shape == batch.ids.shape
    }
    stretched = Batch(**wide)
    end = torch.where(batch.truncated, stretched.ids.shape[1] - 1, -1)
    stretched = replace(stretched, bootstrap_position=end)
    short = at_actions(batch, targets(row, batch, values, final_values))
    long = at_actions(stretched, targets(row, stretched, longer(values), final_values))
    assert torch.equal(short, long)


@every_row
@given(seed=SEEDS)
@FEW
def test_law_07_padding_and_the_order_of_rows_change_nothing(batch_of, row: Algorithm, seed: int) -> None:
    batch, values, final_values = random_case(batch_of, seed)
    order = torch.randperm(EPISODES, generator=torch.Generator().manual_seed(seed))
    place = torch.argsort(order)

    def moved(x: Tensor) -> Tensor:
        return torch.nn.functional.pad(x[order], (0, 5)) if x.shape == batch.ids.shape else x

    facts = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    facts = {name: moved(x) if isinstance(x, Tensor) else x for name, x in facts.items()}
    facts |= {"episode": batch.episode[order], "segment": batch.segment[order]}
    facts["bootstrap_row"] = torch.where(batch.truncated, place[batch.bootstrap_row], -1)
    shuffled = Batch(**facts)
    found = at_actions(batch, targets(row, batch, values, final_values))
    torch.testing.assert_close(
        at_actions(shuffled, targets(row, shuffled, moved(values), final_values)), found
    )


@every_row
@given(seed=SEEDS, cut=st.integers(1, 8))
@FEW
def test_law_08_splitting_episodes_into_segments_changes_nothing(
    batch_of, row: Algorithm, seed: int, cut: int
) -> None:
    batch, values, final_values = random_case(batch_of, seed)
    width = batch.ids.shape[1]
    left = torch.arange(width) < cut

    def cut_rows(x: Tensor) -> Tensor:
        """Rows 0 … 3 keep what stands left of the cut, rows 4 … 7 the rest, with the left as old context."""
        return torch.cat([x, x])

    facts = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    split = {
        name: cut_rows(x) for name, x in facts.items() if isinstance(x, Tensor) and x.shape == batch.ids.shape
    }
    split["is_action"] = torch.cat([batch.is_action & left, batch.is_action & ~left])
    split["episode"] = torch.arange(EPISODES).repeat(2)
    split["segment"] = torch.tensor([0, 1]).repeat_interleave(EPISODES)
    split["bootstrap_row"] = torch.where(batch.truncated, batch.bootstrap_row + EPISODES, -1)
    segmented = Batch(**(facts | split))
    whole = at_actions(batch, targets(row, batch, values, final_values))
    parts = at_actions(segmented, targets(row, segmented, cut_rows(values), final_values))
    assert torch.equal(whole, parts)


def test_law_06_bootstraps_iff_truncated_and_terminated_wins(batch_of) -> None:
    terminated = torch.tensor([False, False, True, True])
    truncated = torch.tensor([False, True, False, True])
    batch = batch_of(
        torch.zeros(4, 3), torch.tensor([[False, True, False]] * 4),
        terminated=terminated, truncated=truncated,
        bootstrap_row=torch.arange(4), bootstrap_position=torch.full((4,), 2), bootstrap_turn=torch.ones(4).long(),
    )  # fmt: skip
    row = PRESETS["ppo"].override({"whiten": "none"})
    found = targets(row, batch, torch.ones(4, 3), torch.full((4,), 5.0))
    assert found.advantages[:, 1].tolist() == [-1, 4, -1, -1]
    assert found.returns[:, 1].tolist() == [0, 5, 0, 0]


def test_each_discount_of_a_row_reaches_its_recursion(batch_of) -> None:
    # The two turns of the hand case of `test_gae.py`, with an environment token between them.
    is_action = torch.tensor([[True, True, False, True]])
    batch = batch_of(torch.tensor([[0.0, 1.0, 0.0, 3.0]]), is_action)
    values = torch.tensor([[1.0, 2.0, 0.0, 4.0]])
    constants = {"gamma_token": 0.5, "gamma_turn": 0.25, "lam_token": 0.5, "lam_turn": 0.75}
    row = PRESETS["ppo"].override({"whiten": "none", **constants})
    # δ = (0, 0, −1); γλ = ½·½ inside the turn, ¼·¾ across the boundary.
    assert estimate_targets(row, batch, values=values).advantages.tolist() == [[-0.046875, -0.1875, 0, -1]]
    to_go = estimate_targets(PRESETS["reinforce"].override(constants), batch)
    assert to_go.advantages.tolist() == [[0.875, 1.75, 0, 3]]


def test_returns_are_advantages_before_whitening_plus_values(batch_of) -> None:
    batch, values, final_values = random_case(batch_of, seed=0)
    plain = targets(PRESETS["ppo"].override({"whiten": "none"}), batch, values, final_values)
    whitened = targets(PRESETS["ppo"], batch, values, final_values)
    acts = batch.is_action
    torch.testing.assert_close(plain.returns[acts], plain.advantages[acts] + values[acts])
    assert torch.equal(whitened.returns, plain.returns)
    assert not torch.allclose(whitened.advantages, plain.advantages)
    torch.testing.assert_close(whitened.advantages[acts].mean(), torch.tensor(0.0, dtype=torch.float64))


def test_every_action_token_of_an_episode_gets_its_group_advantage(batch_of) -> None:
    is_action = torch.tensor([[False, True, False, True], [True, False, False, True]])
    # The first episode earns ½ in each of two turns, the second nothing.
    batch = batch_of(torch.tensor([[0, 0.5, 0, 0.5], [0, 0, 0, 0]]), is_action)
    advantages = estimate_targets(PRESETS["dr_grpo"], batch).advantages
    assert advantages.tolist() == [[0, 0.5, 0, 0.5], [-0.5, 0, 0, -0.5]]


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.name != "rloo, normalised"], ids=lambda row: row.name
)
def test_an_episode_with_a_missing_reward_teaches_nothing(batch_of, row: Algorithm) -> None:
    batch, values, final_values = random_case(batch_of, seed=1)
    batch = replace(batch, group=torch.zeros(EPISODES, dtype=torch.long))
    batch.rewards[2, 2] = torch.nan
    found = targets(row, batch, values, final_values)
    keep = torch.tensor([0, 1, 3])
    facts = {f.name: getattr(batch, f.name) for f in fields(Batch)}
    facts = {name: x[keep] if isinstance(x, Tensor) else x for name, x in facts.items()}
    without = Batch(**(facts | {"episode": torch.arange(3)}))
    expected = targets(row, without, values[keep], final_values[keep])
    torch.testing.assert_close(found.advantages[keep], expected.advantages)
    assert found.advantages[2].eq(0).all()
    if row.critic:
        acts = batch.is_action[2]
        assert torch.equal(found.returns[2, acts], values[2, acts])


def test_a_row_takes_the_kl_from_the_reward_of_each_token(batch_of) -> None:
    is_action = torch.tensor([[False, True, False, True]])
    behaviour = torch.tensor([[torch.nan, -1.0, torch.nan, -2.0]])
    reference = torch.tensor([[torch.nan, -1.5, torch.nan, -1.0]])
    batch = batch_of(torch.tensor([[0.0, 0.0, 0.0, 1.0]]), is_action, behaviour_logprobs=behaviour)
    row = PRESETS["reinforce"].override({"kl_coef": 0.5})
    found = estimate_targets(row, batch, reference_logprobs=reference)
    # r = (−½·½, 1 + ½·1), then to go.
    assert found.advantages.tolist() == [[0, 1.25, 0, 1.5]]


def test_what_is_missing_is_named(batch_of) -> None:
    batch, values, final_values = random_case(batch_of, seed=2)
    with pytest.raises(ValueError, match="ppo needs a critic"):
        estimate_targets(PRESETS["ppo"], batch)
    with pytest.raises(ValueError, match=r"episodes \[1\] were truncated"):
        estimate_targets(PRESETS["ppo"], batch, values=values)
    nowhere = replace(batch, bootstrap_row=torch.full((EPISODES,), -1))
    with pytest.raises(ValueError, match=r"episodes \[1\] were truncated"):
        estimate_targets(PRESETS["ppo"], nowhere, values=values, final_values=final_values)
    with pytest.raises(ValueError, match="give reference_logprobs"):
        estimate_targets(PRESETS["grpo"].override({"kl_coef": 0.1}), batch)


def test_targets_carry_no_gradient(batch_of) -> None:
    batch, values, final_values = random_case(batch_of, seed=3)
    found = targets(PRESETS["ppo"], batch, values.requires_grad_(), final_values.requires_grad_())
    assert not found.advantages.requires_grad
    assert not found.returns.requires_grad
