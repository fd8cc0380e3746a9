"""GAE over turns, against hand-computed cases, a plain loop over one trajectory, and the laws."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turngym.trainer.credit.gae import bootstrap, gae

FEW = settings(max_examples=60, deadline=None)
SEEDS = st.integers(0, 2**32 - 1)
DISCOUNTS = st.sampled_from([0.0, 0.5, 0.95, 1.0])


def row(*numbers: float) -> Tensor:
    return torch.tensor([numbers], dtype=torch.float64)


def plain(
    rewards: Tensor, values: Tensor, is_action: Tensor, *, gamma: float, lam: float, final: float = 0.0
) -> Tensor:
    """GAE with one (γ, λ), on rows that are all of one turn and end there."""
    turn = torch.zeros_like(is_action, dtype=torch.long)
    end = torch.full((len(rewards),), final, dtype=rewards.dtype)
    return gae(
        rewards, values, is_action, turn, end, turn.new_zeros(len(rewards)),
        gamma_token=gamma, gamma_turn=gamma, lam_token=lam, lam_turn=lam,
    )  # fmt: skip


def one_trajectory(
    rewards: list[float],
    values: list[float],
    turns: list[int],
    final_value: float,
    final_turn: int,
    gamma: tuple[float, float],
    lam: tuple[float, float],
) -> list[float]:
    """The definition, summed forwards over one trajectory: A_t = Σ_{k≥t} (Π_{t≤j<k} γ_j λ_j) δ_k."""
    steps = len(rewards)
    next_values = [*values[1:], final_value]
    next_turns = [*turns[1:], final_turn]
    pair = [0 if turns[t] == next_turns[t] else 1 for t in range(steps)]
    deltas = [rewards[t] + gamma[pair[t]] * next_values[t] - values[t] for t in range(steps)]
    return [
        sum(
            deltas[k] * math.prod(gamma[pair[j]] * lam[pair[j]] for j in range(t, k)) for k in range(t, steps)
        )
        for t in range(steps)
    ]


def test_hand_case_of_two_turns() -> None:
    # δ = (0 + ½·2 − 1, 1 + ¼·4 − 2, 3 − 4) = (0, 0, −1); across the boundary γλ = ¼·½, inside the turn ½·1.
    advantages = gae(
        row(0, 1, 3), row(1, 2, 4), torch.ones(1, 3, dtype=torch.bool), torch.tensor([[0, 0, 1]]),
        torch.zeros(1, dtype=torch.float64), torch.tensor([2]),
        gamma_token=0.5, gamma_turn=0.25, lam_token=1.0, lam_turn=0.5,
    )  # fmt: skip
    assert advantages.tolist() == [[-0.0625, -0.125, -1.0]]


def test_published_case_trailing_environment_token() -> None:
    is_action = torch.tensor([[True, True, False]])
    advantages = plain(row(0, 1, 0), row(0, 0, 100), is_action, gamma=1.0, lam=0.95)
    torch.testing.assert_close(advantages, row(0.95, 1, 0))


@pytest.mark.parametrize("junk", [0.0, -1e30, torch.inf, torch.nan])
def test_law_03_published_case_values_at_masked_positions_may_be_anything(junk: float) -> None:
    is_action = torch.tensor([[False, True, False, True, True, False]])
    clean = plain(row(0, 1, 0, 2, 3, 0), row(0, 4, 0, 5, 6, 0), is_action, gamma=0.9, lam=0.8)
    dirty = plain(
        row(junk, 1, junk, 2, 3, junk), row(junk, 4, junk, 5, 6, junk), is_action, gamma=0.9, lam=0.8
    )
    assert torch.equal(clean, dirty)
    assert clean[is_action].ne(0).all()


def test_the_last_transition_crosses_a_turn_only_if_the_final_state_lies_in_another() -> None:
    def last(final_turn: int) -> float:
        advantages = gae(
            row(0), row(0), torch.tensor([[True]]), torch.tensor([[3]]), torch.ones(1, dtype=torch.float64),
            torch.tensor([final_turn]), gamma_token=0.5, gamma_turn=0.25, lam_token=1.0, lam_turn=1.0,
        )  # fmt: skip
        return advantages.item()

    assert last(final_turn=3) == 0.5
    assert last(final_turn=4) == 0.25


@given(SEEDS, st.integers(1, 4), st.integers(0, 12), DISCOUNTS, DISCOUNTS, DISCOUNTS, DISCOUNTS)
@FEW
def test_agrees_with_a_plain_loop_over_each_trajectory(
    seed: int,
    episodes: int,
    width: int,
    gamma_token: float,
    gamma_turn: float,
    lam_token: float,
    lam_turn: float,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, episodes, width, dtype=torch.float64, generator=generator)
    is_action = torch.rand(episodes, width, generator=generator) < 0.7
    turn = (torch.rand(episodes, width, generator=generator) < 0.3).long().cumsum(dim=1)
    final_value = torch.randn(episodes, dtype=torch.float64, generator=generator)
    final_turn = torch.randint(0, 4, (episodes,), generator=generator)
    advantages = gae(
        rewards, values, is_action, turn, final_value, final_turn,
        gamma_token=gamma_token, gamma_turn=gamma_turn, lam_token=lam_token, lam_turn=lam_turn,
    )  # fmt: skip
    for e in range(episodes):
        acts = is_action[e]
        expected = one_trajectory(
            rewards[e, acts].tolist(), values[e, acts].tolist(), turn[e, acts].tolist(),
            final_value[e].item(), int(final_turn[e]), (gamma_token, gamma_turn), (lam_token, lam_turn),
        )  # fmt: skip
        torch.testing.assert_close(advantages[e, acts], torch.tensor(expected, dtype=torch.float64))
        assert advantages[e, ~acts].eq(0).all()


@given(SEEDS, st.integers(1, 10), st.integers(0, 8), DISCOUNTS, DISCOUNTS)
@FEW
def test_law_05_inserting_environment_tokens_changes_no_advantage(
    seed: int, actions: int, inserted: int, gamma: float, lam: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 1, actions, dtype=torch.float64, generator=generator)
    turn = torch.randint(0, 2, (1, actions), generator=generator).cumsum(dim=1)
    places = torch.randperm(actions + inserted, generator=generator)[:actions].sort().values
    is_action = torch.zeros(1, actions + inserted, dtype=torch.bool)
    is_action[0, places] = True

    def spread(x: Tensor, junk: float) -> Tensor:
        out = torch.full((1, actions + inserted), junk).to(x.dtype)
        out[0, places] = x[0]
        return out

    def advantages(r: Tensor, v: Tensor, m: Tensor, k: Tensor) -> Tensor:
        return gae(
            r, v, m, k, torch.ones(1, dtype=torch.float64), torch.tensor([99]),
            gamma_token=gamma, gamma_turn=gamma / 2, lam_token=lam, lam_turn=lam / 2,
        )  # fmt: skip

    compact = advantages(rewards, values, torch.ones(1, actions, dtype=torch.bool), turn)
    gapped = advantages(spread(rewards, 7.0), spread(values, 9.0), is_action, spread(turn, 50))
    assert torch.equal(gapped[is_action], compact[0])


@given(SEEDS, st.integers(1, 10))
@FEW
def test_lam_1_gives_the_return_less_the_value_and_lam_0_the_one_step_error(seed: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 3, width, dtype=torch.float64, generator=generator)
    acts = torch.ones(3, width, dtype=torch.bool)
    to_go = rewards.flip(1).cumsum(1).flip(1)
    torch.testing.assert_close(plain(rewards, values, acts, gamma=1.0, lam=1.0), to_go - values)
    next_values = torch.cat([values[:, 1:], values.new_full((3, 1), 2.0)], dim=1)
    errors = rewards + 0.5 * next_values - values
    torch.testing.assert_close(plain(rewards, values, acts, gamma=0.5, lam=0.0, final=2.0), errors)


def test_law_06_bootstraps_iff_truncated_and_terminated_wins() -> None:
    terminated = torch.tensor([False, False, True, True])
    truncated = torch.tensor([False, True, False, True])
    assert bootstrap(torch.full((4,), 5.0), terminated, truncated).tolist() == [0, 5, 0, 0]
    unread = torch.tensor([torch.nan, 5.0, torch.nan, torch.nan])
    assert bootstrap(unread, terminated, truncated).tolist() == [0, 5, 0, 0]
