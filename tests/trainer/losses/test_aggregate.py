"""Aggregation: plain loops, and the law that no cut of the batch changes a loss or a gradient."""

import statistics

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from turngym.trainer.losses.aggregate import AGGREGATIONS, EmptyBatchWarning, Normaliser, aggregate

SEEDS = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=40, deadline=None)
NORM = 7.0
every_aggregation = pytest.mark.parametrize("name", AGGREGATIONS)


def plain(name: str, episodes: list[list[float]], groups: list[int]) -> float:
    """The definition, on the losses of the action tokens of each episode."""
    kept = [(losses, group) for losses, group in zip(episodes, groups, strict=True) if losses]
    if name == "token-mean":
        return statistics.mean(loss for losses, _ in kept for loss in losses)
    if name == "prompt-mean":
        prompts = {group: [loss for losses, g in kept if g == group for loss in losses] for _, group in kept}
        return statistics.mean(statistics.mean(losses) for losses in prompts.values())
    reduce = {
        "seq-mean-token-mean": statistics.mean,
        "seq-mean-token-sum": sum,
        "seq-mean-token-sum-norm": lambda losses: sum(losses) / NORM,
    }[name]
    return statistics.mean(reduce(losses) for losses, _ in kept)


def random_rows(
    seed: int, rows: int = 8, width: int = 6, episodes: int = 5
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Losses, is_action, the episode of each row (rows may share one), and the group of each episode."""
    generator = torch.Generator().manual_seed(seed)
    losses = torch.randn(rows, width, dtype=torch.float64, generator=generator)
    is_action = torch.rand(rows, width, generator=generator) < 0.5
    is_action[0, 0] = True
    is_action[-1] = False  # a fully masked row
    episode = torch.randint(0, episodes, (rows, 1), generator=generator)
    return losses, is_action, episode, torch.randint(0, 3, (episodes,), generator=generator)


@every_aggregation
@given(seed=SEEDS)
@FEW
def test_law_08_agrees_with_plain_loops_over_episodes(name: str, seed: int) -> None:
    losses, is_action, episode, group = random_rows(seed)
    normaliser = Normaliser.of(name, is_action, episode, group, norm_tokens=NORM)
    by_episode = [losses[(episode == e) & is_action].tolist() for e in range(len(group))]
    total = aggregate(losses, is_action, episode, normaliser)
    assert total.item() == pytest.approx(plain(name, by_episode, group.tolist()))


@every_aggregation
@given(seed=SEEDS, micro_batches=st.sampled_from([1, 2, 3, 8]))
@FEW
def test_law_07_published_case_gradient_accumulation_of_any_length_gives_the_same_gradient(
    name: str, seed: int, micro_batches: int
) -> None:
    losses, is_action, episode, group = random_rows(seed)
    normaliser = Normaliser.of(name, is_action, episode, group, norm_tokens=NORM)
    weights = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))

    def loss_and_gradient(order: Tensor, parts: int) -> tuple[float, Tensor]:
        parameter = torch.ones(3, dtype=torch.float64, requires_grad=True)
        total = 0.0
        for rows in order.tensor_split(parts):
            # Any model will do; this one is a quadratic form of its parameter.
            per_token = losses[rows] * (weights @ parameter).square()
            term = aggregate(per_token, is_action[rows], episode[rows], normaliser)
            term.backward()
            total += term.item()
        assert parameter.grad is not None
        return total, parameter.grad

    order = torch.randperm(len(losses), generator=torch.Generator().manual_seed(seed))
    whole, whole_gradient = loss_and_gradient(torch.arange(len(losses)), 1)
    cut, cut_gradient = loss_and_gradient(order, micro_batches)
    assert cut == pytest.approx(whole)
    torch.testing.assert_close(cut_gradient, whole_gradient)


@every_aggregation
def test_law_07_padding_and_fully_masked_rows_count_nowhere(name: str) -> None:
    losses, is_action, episode, group = random_rows(seed=3)
    padded = torch.nn.functional.pad(losses, (0, 4, 0, 2), value=torch.nan)
    padded_action = torch.nn.functional.pad(is_action, (0, 4, 0, 2))
    padded_episode = torch.cat([episode, torch.tensor([[5], [6]])])
    padded_group = torch.cat([group, torch.tensor([90, 91])])
    normaliser = Normaliser.of(name, is_action, episode, group, norm_tokens=NORM)
    wider = Normaliser.of(name, padded_action, padded_episode, padded_group, norm_tokens=NORM)
    total = aggregate(padded, padded_action, padded_episode, wider)
    torch.testing.assert_close(total, aggregate(losses, is_action, episode, normaliser))


@every_aggregation
def test_law_03_junk_at_masked_positions_reaches_neither_value_nor_gradient(name: str) -> None:
    losses = torch.tensor([[1.0, torch.nan], [torch.inf, 2.0]], requires_grad=True)
    is_action, episode = torch.tensor([[True, False], [False, True]]), torch.tensor([[0], [1]])
    normaliser = Normaliser.of(name, is_action, episode, torch.tensor([0, 0]))
    aggregate(losses, is_action, episode, normaliser).backward()
    assert losses.grad is not None
    assert losses.grad[~is_action].eq(0).all()
    assert losses.grad[is_action].gt(0).all()


@every_aggregation
def test_an_empty_batch_is_0_with_a_warning(name: str) -> None:
    is_action, episode = torch.zeros(2, 3, dtype=torch.bool), torch.tensor([[0], [1]])
    with pytest.warns(EmptyBatchWarning, match="skip the step"):
        normaliser = Normaliser.of(name, is_action, episode, torch.tensor([0, 0]))
    losses = torch.full((2, 3), torch.nan, requires_grad=True)
    total = aggregate(losses, is_action, episode, normaliser)
    total.backward()
    assert total.item() == 0
    assert losses.grad is not None
    assert losses.grad.eq(0).all()


def test_one_entry_per_action_token_gives_the_same() -> None:
    losses, is_action, episode, group = random_rows(seed=4)
    normaliser = Normaliser.of("seq-mean-token-mean", is_action, episode, group)
    flat = losses[is_action]
    of_token = episode.expand(is_action.shape)[is_action]
    total = aggregate(flat, torch.ones_like(of_token, dtype=torch.bool), of_token, normaliser)
    torch.testing.assert_close(total, aggregate(losses, is_action, episode, normaliser))


def test_a_float32_loss_stays_float32() -> None:
    losses, is_action, episode, group = random_rows(seed=5)
    normaliser = Normaliser.of("token-mean", is_action, episode, group)
    assert aggregate(losses.float(), is_action, episode, normaliser).dtype == torch.float32
