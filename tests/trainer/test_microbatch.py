from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.trainer.batch import pack
from turngym.trainer.microbatch import final_positions, microbatches, minibatches, needed_width


def test_needed_width_ends_at_the_last_action_or_at_the_bootstrap(trajectories):
    batch = pack(*trajectories)
    # Rows: episodes 0 (8 tokens), 1 (12 with a final context nobody reads), 2 (12, cut), 3 in two segments, 4
    # (cut, and its final context is a segment of its own).
    assert batch.is_real.sum(1).tolist() == [8, 12, 12, 4, 6, 2, 4]
    assert needed_width(batch).tolist() == [8, 10, 12, 4, 6, 2, 4]
    assert final_positions(batch).tolist() == [-1, -1, 11, -1, -1, -1, 3]


def test_a_row_of_environment_tokens_that_nothing_is_read_from_is_left_out(build_trajectory):
    done = build_trajectory([((1,), (2,), 1.0)], final_context=(3, 4), final_new_segment=True)
    (part,) = microbatches(pack([done], [0]), torch.tensor([0]), max_tokens=100)
    assert part.rows.tolist() == [0]
    assert part.width == 2


def test_tables_are_cut_and_written_back(trajectories):
    batch = pack(*trajectories)
    table = torch.zeros(batch.ids.shape)
    for part in microbatches(batch, torch.arange(5), max_tokens=20):
        rows = part.tokens(batch, torch.device("cpu"))
        assert torch.equal(rows.ids, batch.ids[part.rows, : part.width])
        part.put(table, rows.is_action.float())
    assert torch.equal(table.bool(), batch.is_action)


@settings(max_examples=50, deadline=None)
@given(max_tokens=st.integers(1, 80), chosen=st.sets(st.integers(0, 4), min_size=1))
def test_law_07_micro_batches_hold_each_episode_once_and_whole(trajectories_batch, max_tokens, chosen):
    batch = trajectories_batch
    parts = list(microbatches(batch, torch.tensor(sorted(chosen)), max_tokens=max_tokens))
    rows = torch.cat([part.rows for part in parts]).tolist()
    wanted = [row for row in range(len(batch.episode)) if int(batch.episode[row]) in chosen]
    assert sorted(rows) == wanted
    for part in parts:
        episodes = batch.episode[part.rows].unique()
        assert len(part.rows) * part.width <= max_tokens or len(episodes) == 1
        assert part.width >= int(needed_width(batch)[part.rows].max())
    homes = [set(batch.episode[part.rows].tolist()) for part in parts]
    assert sum(map(len, homes)) == len(set.union(*homes))


def test_minibatches_share_out_the_episodes_and_depend_on_the_generator_alone():
    def cut(seed, count=3):
        return [part.tolist() for part in minibatches(8, count, torch.Generator().manual_seed(seed))]

    assert sorted(episode for part in cut(0) for episode in part) == list(range(8))
    assert sorted(map(len, cut(0))) == [2, 3, 3]
    assert cut(0) == cut(0) != cut(1)
    assert len(cut(0, count=20)) == 8
