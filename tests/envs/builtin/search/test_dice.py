import numpy as np
import pytest

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.words import Namer


def test_the_same_seed_gives_the_same_draws_everywhere():
    dice = Dice.seeded("anything")
    assert [dice.pick(1, 6) for _ in range(12)] == [1, 6, 4, 4, 2, 5, 1, 6, 4, 5, 6, 1]
    first, second = (Dice.of(np.random.default_rng(3)) for _ in range(2))
    assert [first.below(100) for _ in range(80)] == [second.below(100) for _ in range(80)]


def test_draws_keep_their_bounds_and_reach_them():
    dice = Dice.seeded(1)
    assert {dice.pick(3, 5) for _ in range(200)} == {3, 4, 5}
    assert {dice.choice("ab") for _ in range(50)} == {"a", "b"}
    assert sorted(dice.shuffled(range(20))) == list(range(20))
    assert len({tuple(dice.shuffled("abc")) for _ in range(200)}) == 6
    assert 0.2 < sum(dice.chance(0.3) for _ in range(1000)) / 1000 < 0.4


def test_no_two_names_are_alike():
    namer = Namer(Dice.seeded(0))
    names = [namer.new("{}", "New {}", roots=("Same", "SAME")) for _ in range(500)]
    assert len({name.lower() for name in names}) == 500
    assert sum("same" in name.lower() for name in names) == 2


def test_a_namer_that_can_find_nothing_new_says_so():
    namer = Namer(Dice.seeded(0))
    namer.new("Fixed")
    with pytest.raises(RuntimeError, match="no new names"):
        namer.new("Fixed")
