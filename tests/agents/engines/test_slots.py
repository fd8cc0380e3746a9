from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.engines.slots import SlotTable

contexts = st.lists(st.integers(0, 2), min_size=1, max_size=8)


def shared(a: list[int], b: list[int]) -> int:
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


@given(st.lists(contexts, min_size=1, max_size=5), contexts)
@settings(max_examples=100, deadline=None)
def test_common_prefix(held: list[list[int]], prompt: list[int]) -> None:
    table = SlotTable(8)
    for number, ids in enumerate(held):
        row = table.take_row(str(number))
        assert row is not None
        table.start(row, np.array(ids), 0)
    assert table.common_prefix(np.array(prompt)).tolist() == [shared(ids, prompt) for ids in held]


def test_rows_go_to_the_free_then_the_new_then_the_longest_idle() -> None:
    table = SlotTable(2)
    a, b = table.take_row("a"), table.take_row("b")
    assert (a, b) == (0, 1)
    for row in (0, 1):
        table.start(row, np.array([1, 2]), 0)
    assert table.take_row("c") is None, "all are busy"
    table.stop(1)
    table.stop(0)
    assert table.take_row("c") == 1, "b was idle for longer"
    assert table.row_of("b") is None
    assert (table.row_of("a"), table.session_of(0)) == (0, "a")
    table.release(0)
    assert table.take_row("d") == 0, "nobody's"


def test_a_stopped_row_keeps_what_is_cached() -> None:
    table = SlotTable(1)
    assert table.take_row("a") == 0
    table.start(0, np.array([5, 6, 7]), 1)
    table.cached[0] = 3
    table.append(np.array([0]), np.array([8]))
    assert table.length[0] == 4
    table.stop(0)
    assert table.common_prefix(np.array([5, 6, 7, 8])).tolist() == [3]
    table.forget_cached()
    assert table.common_prefix(np.array([5, 6, 7, 8])).tolist() == [0]


def test_forgetting_sends_a_busy_row_back_to_its_start() -> None:
    table = SlotTable(2)
    for row, name in enumerate("ab"):
        assert table.take_row(name) == row
        table.start(row, np.array([5, 6, 7]), 3)
    table.forget_cached(0)
    assert (table.cached.tolist(), table.length.tolist()) == ([0, 3], [3, 3])


@given(st.permutations(range(4)))
@settings(max_examples=30, deadline=None)
def test_swaps_move_everything(order: list[int]) -> None:
    table = SlotTable(4)
    for row in range(4):
        table.take_row(f"s{row}")
        table.start(row, np.arange(row + 1), row)
        if row % 2:
            table.stop(row)
    for a in range(4):
        table.swap(a, order[a])
    for number in range(4):
        row = table.row_of(f"s{number}")
        assert row is not None
        assert table.session_of(row) == f"s{number}"
        assert table.cached[row] == number
        assert table.is_busy[row] == (number % 2 == 0)
        assert table.ids[row, :number].tolist() == list(range(number))
