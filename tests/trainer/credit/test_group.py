"""Group advantages, against hand-computed cases, plain loops, and the laws."""

import math
import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turngym.trainer.credit.group import SmallGroupWarning, Std, grpo, rloo

FEW = settings(max_examples=60, deadline=None)
# Rewards in eighths: sums are exact, so that equal groups and equal others are exactly equal.
REWARDS = st.integers(-16, 16).map(lambda n: n / 8)
GROUPS = st.lists(st.lists(REWARDS, min_size=2, max_size=6), min_size=1, max_size=4)
STDS: list[Std] = ["none", "group", "batch"]


def rewards_of(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def ravel(groups: list[list[float]]) -> tuple[Tensor, Tensor]:
    flat = [(reward, g) for g, group in enumerate(groups) for reward in group]
    return rewards_of(*(r for r, _ in flat)), torch.tensor([g for _, g in flat])


def spread(numbers: list[float], ddof: int) -> float:
    return statistics.stdev(numbers) if ddof else statistics.pstdev(numbers)


def plain_grpo(groups: list[list[float]], std: Std, ddof: int, eps: float) -> list[float]:
    everything = [reward for group in groups for reward in group]
    out = []
    for group in groups:
        scale = {"none": 1.0, "group": spread(group, ddof) + eps, "batch": spread(everything, ddof) + eps}[
            std
        ]
        constant = len(set(group)) == 1
        out += [0.0 if constant else (reward - statistics.mean(group)) / scale for reward in group]
    return out


def plain_rloo(groups: list[list[float]], std: Std, ddof: int, eps: float) -> list[float]:
    everything = [reward for group in groups for reward in group]
    out = []
    for group in groups:
        for i, reward in enumerate(group):
            others = group[:i] + group[i + 1 :]
            scale = 1.0
            if std == "batch" and len(set(group)) > 1:
                scale = spread(everything, ddof) + eps
            if std == "group" and len(set(others)) > 1:
                scale = spread(others, ddof) + eps
            out.append((reward - statistics.mean(others)) / scale)
    return out


def test_hand_case_grpo() -> None:
    # Mean 2, squared deviations 4 + 0 + 4, divided by 2: std 2.
    advantages = grpo(rewards_of(0, 2, 4), torch.tensor([7, 7, 7]), std="group", ddof=1, eps=0.0)
    assert advantages.tolist() == [-1, 0, 1]


def test_hand_case_rloo() -> None:
    assert rloo(rewards_of(0, 2, 4, 9, 1), torch.tensor([5, 5, 5, 3, 3])).tolist() == [-3, 0, 3, 8, -8]


@pytest.mark.parametrize("eps", [0.0, 1e-8, 1e-4])
def test_published_case_leave_one_out_std_of_zero_stays_finite(eps: float) -> None:
    advantages = rloo(rewards_of(1, 0, 0, 0), torch.zeros(4, dtype=torch.long), std="group", eps=eps)
    # The others of the first have no spread: centred, unscaled. The others of the rest are (1, 0, 0).
    scaled = -(1 / 3) / (math.sqrt(1 / 3) + eps)
    torch.testing.assert_close(advantages, rewards_of(1, scaled, scaled, scaled))


def test_published_case_missing_reward() -> None:
    rewards = rewards_of(1, math.nan, 3)
    group = torch.zeros(3, dtype=torch.long)
    assert grpo(rewards, group, std="none").tolist() == [-1, 0, 1]
    assert rloo(rewards, group).tolist() == [-2, 0, 2]
    scaled = 1 / math.sqrt(2)
    torch.testing.assert_close(grpo(rewards, group, eps=0.0), rewards_of(-scaled, 0, scaled))


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("estimate", [grpo, rloo])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_group_without_variance_gives_exactly_0(estimate, std: Std, dtype: torch.dtype) -> None:
    # 0.1 is not exact: the mean of seven of them is not 0.1, and what is left over must not be blown up.
    rewards = torch.tensor([0.1] * 7 + [0.0, 1.0], dtype=dtype)
    group = torch.tensor([0] * 7 + [1, 1])
    advantages = estimate(rewards, group, std=std, eps=0.0)
    assert advantages[:7].eq(0).all()
    assert advantages[7:].ne(0).all()


@pytest.mark.parametrize("std", STDS)
@pytest.mark.parametrize("estimate", [grpo, rloo])
def test_a_group_of_one_gives_0_with_a_warning(estimate, std: Std) -> None:
    with pytest.warns(SmallGroupWarning, match="1 of 2 groups"):
        advantages = estimate(rewards_of(5, 0, 2), torch.tensor([1, 0, 0]), std=std)
    assert advantages[0] == 0
    assert advantages[1:].ne(0).all()


@pytest.mark.parametrize("estimate", [grpo, rloo])
def test_a_group_with_one_reward_left_gives_0_with_a_warning(estimate) -> None:
    with pytest.warns(SmallGroupWarning):
        assert estimate(rewards_of(5, math.nan), torch.tensor([0, 0])).tolist() == [0, 0]
    with pytest.warns(SmallGroupWarning):
        assert estimate(rewards_of(math.nan, math.nan), torch.tensor([0, 0])).tolist() == [0, 0]


@given(GROUPS, st.sampled_from(STDS), st.sampled_from([0, 1]), st.sampled_from([1e-8, 1e-4]))
@FEW
def test_agree_with_plain_loops(groups: list[list[float]], std: Std, ddof: int, eps: float) -> None:
    rewards, group = ravel(groups)
    expected = rewards_of(*plain_grpo(groups, std, ddof, eps))
    torch.testing.assert_close(grpo(rewards, group, std=std, ddof=ddof, eps=eps), expected)
    expected = rewards_of(*plain_rloo(groups, std, ddof, eps))
    torch.testing.assert_close(rloo(rewards, group, std=std, ddof=ddof, eps=eps), expected)


@given(GROUPS, st.sampled_from(STDS))
@FEW
def test_each_group_is_centred_and_the_level_of_its_rewards_is_irrelevant(
    groups: list[list[float]], std: Std
) -> None:
    rewards, group = ravel(groups)
    advantages = grpo(rewards, group, std=std)
    sums = torch.zeros(len(groups), dtype=torch.float64).index_add(0, group, advantages)
    torch.testing.assert_close(sums, torch.zeros_like(sums), atol=1e-9, rtol=0)
    if std != "batch":
        torch.testing.assert_close(grpo(rewards + 8.0 * group, group, std=std), advantages)


@given(GROUPS)
@FEW
def test_rloo_is_the_centred_reward_times_g_over_g_minus_1(groups: list[list[float]]) -> None:
    rewards, group = ravel(groups)
    sizes = torch.tensor([float(len(groups[g])) for g in group], dtype=torch.float64)
    torch.testing.assert_close(rloo(rewards, group), sizes / (sizes - 1) * grpo(rewards, group, std="none"))


@given(GROUPS, st.sampled_from(STDS), st.integers(0, 2**32 - 1))
@FEW
def test_law_07_the_order_of_episodes_and_the_names_of_groups_are_irrelevant(
    groups: list[list[float]], std: Std, seed: int
) -> None:
    rewards, group = ravel(groups)
    order = torch.randperm(len(rewards), generator=torch.Generator().manual_seed(seed))
    renamed = (7 * group + 100)[order]
    for estimate in (grpo, rloo):
        shuffled = estimate(rewards[order], renamed, std=std)
        torch.testing.assert_close(shuffled, estimate(rewards, group, std=std)[order])


@given(GROUPS, st.sampled_from(STDS))
@FEW
def test_a_missing_reward_is_as_good_as_an_absent_episode(groups: list[list[float]], std: Std) -> None:
    rewards, group = ravel(groups)
    with_missing = torch.cat([rewards, rewards_of(*[math.nan] * len(groups))])
    with_group = torch.cat([group, torch.arange(len(groups))])
    for estimate in (grpo, rloo):
        advantages = estimate(with_missing, with_group, std=std)
        torch.testing.assert_close(advantages[: len(rewards)], estimate(rewards, group, std=std))
        assert advantages[len(rewards) :].eq(0).all()
