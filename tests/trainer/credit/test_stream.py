"""The view of a batch that credit runs on: action tokens only, whole episodes, in order."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.trainer.credit.stream import ActionStream, Episodes


def test_collects_action_tokens_across_segments_in_order() -> None:
    is_action = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 0]], dtype=torch.bool)
    tokens = torch.tensor([[-1, 4, -1, 5], [7, -1, -1, -1], [1, 2, 3, -1]])
    # Rows 2 and 0 are segments 0 and 1 of episode 1, stored the wrong way round.
    stream = ActionStream.of(is_action, torch.tensor([1, 0, 1]), torch.tensor([1, 0, 0]), episodes=3)
    assert stream.gather(tokens).tolist() == [[7, 0, 0, 0, 0], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]]
    assert stream.is_action.sum(dim=1).tolist() == [1, 5, 0]


def test_scatter_writes_back_and_leaves_0_elsewhere() -> None:
    is_action = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 0]], dtype=torch.bool)
    stream = ActionStream.of(is_action, torch.tensor([0, 0]), torch.tensor([1, 0]), episodes=1)
    assert stream.scatter(torch.tensor([[5.0, 6.0, 7.0]])).tolist() == [[0, 6, 0, 7], [5, 0, 0, 0]]


def test_an_episode_that_ends_on_environment_tokens_keeps_its_end_reward() -> None:
    is_action = torch.tensor([[0, 1, 1, 0, 0, 0]], dtype=torch.bool)
    rewards = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]])
    stream = ActionStream.of(is_action, torch.tensor([0]), torch.tensor([0]), episodes=1)
    assert stream.gather(rewards).tolist() == [[0.0, 1.0]]


def test_law_03_the_total_reward_reads_action_tokens_only_and_is_missing_if_one_of_them_is() -> None:
    is_action = torch.tensor([[True, True], [True, False], [True, True]])
    rewards = torch.tensor([[1.0, 2.0], [4.0, torch.nan], [8.0, torch.nan]])
    zeros, turn = torch.zeros(3), torch.zeros(3, 2, dtype=torch.long)
    episodes = Episodes(is_action, turn, rewards, torch.zeros(3, 2), zeros, zeros.long(), zeros.long())
    assert episodes.total_reward[:2].tolist() == [3, 4]
    assert episodes.total_reward[2].isnan()


def test_a_batch_without_action_tokens_has_empty_streams() -> None:
    is_action = torch.zeros(2, 3, dtype=torch.bool)
    stream = ActionStream.of(is_action, torch.tensor([0, 1]), torch.tensor([0, 0]), episodes=2)
    assert stream.gather(torch.ones(2, 3)).shape == (2, 0)
    assert stream.scatter(torch.ones(2, 0)).tolist() == [[0, 0, 0], [0, 0, 0]]


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 8))
@settings(max_examples=50, deadline=None)
def test_scatter_undoes_gather(seed: int, rows: int, width: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    is_action = torch.rand(rows, width, generator=generator) < 0.5
    episode = torch.randint(0, 3, (rows,), generator=generator)
    segment = torch.randperm(rows, generator=generator)
    x = torch.randn(rows, width, generator=generator)
    x[~is_action] = torch.nan
    stream = ActionStream.of(is_action, episode, segment, episodes=3)
    assert stream.gather(x)[~stream.is_action].eq(0).all()
    assert torch.equal(stream.scatter(stream.gather(x)), torch.where(is_action, x, 0))
    assert torch.equal(
        stream.is_action.sum(dim=1), torch.bincount(episode[is_action.nonzero()[:, 0]], minlength=3)
    )
