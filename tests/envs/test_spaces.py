from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from turngym.envs import ActionSpace, MessagesSpace, assistant, user
from turngym.envs.builtin.calculator import Calculator

TOOLS = Calculator().tools


def test_what_is_an_observation():
    space = MessagesSpace(seed=0)
    assert (user("x"), assistant("y")) in space
    assert () in space
    assert [user("x")] not in space
    assert ("x",) not in space
    assert all(space.sample() in space for _ in range(20))


def test_what_is_an_action():
    space = ActionSpace(tools=TOOLS, seed=0)
    assert "text" in space
    assert assistant("text") in space
    assert user("text") not in space
    assert 3 not in space
    samples = [space.sample() for _ in range(50)]
    assert all(sample in space for sample in samples)
    assert any(not isinstance(sample, str) and sample.tool_calls for sample in samples)


def test_equality_is_by_content():
    assert MessagesSpace() == MessagesSpace(seed=3)
    assert MessagesSpace() != ActionSpace()
    assert ActionSpace(tools=TOOLS) == ActionSpace(tools=TOOLS, seed=1)
    assert ActionSpace(tools=TOOLS) != ActionSpace()
    assert ActionSpace(choices=["1"]) != ActionSpace(choices=["2"])
    assert len({ActionSpace(), ActionSpace()}) == 1


@pytest.mark.parametrize(
    "space", [MessagesSpace(), ActionSpace(tools=TOOLS), ActionSpace(choices=["1", "2"])]
)
def test_seeds_copies_and_json(space):
    space.seed(7)
    twin, thawed = copy.deepcopy(space), pickle.loads(pickle.dumps(space))
    samples = [space.sample() for _ in range(5)]
    assert samples == [twin.sample() for _ in range(5)] == [thawed.sample() for _ in range(5)]
    assert space.from_jsonable(space.to_jsonable(samples)) == samples


def test_masks_and_probabilities_are_over_the_choices():
    space = ActionSpace(choices=["a", "b", "c"], seed=0)
    assert {space.sample(mask=np.array([0, 1, 0], dtype=np.int8)) for _ in range(10)} == {"b"}
    assert {space.sample(probability=np.array([0.0, 0.0, 1.0])) for _ in range(10)} == {"c"}
    assert {space.sample() for _ in range(50)} == {"a", "b", "c"}
    with pytest.raises(ValueError, match="not both"):
        space.sample(mask=np.ones(3), probability=np.ones(3) / 3)
    for wrong in (np.zeros(3), np.ones(2), np.array([1, -1, 1])):
        with pytest.raises(ValueError, match="one per choice"):
            space.sample(mask=wrong)
    with pytest.raises(ValueError, match="no choices"):
        ActionSpace().sample(mask=np.ones(1))
    with pytest.raises(ValueError, match="without mask"):
        MessagesSpace().sample(mask=np.ones(1))
