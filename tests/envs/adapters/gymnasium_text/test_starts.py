from __future__ import annotations

import gymnasium
import pytest
from gymnasium.envs.toy_text.frozen_lake import is_valid

from turngym.envs import make
from turngym.envs.adapters.gymnasium_text.starts import SeedTasks, random_lakes
from turngym.envs.errors import UnknownTask
from turngym.envs.tasks import KnowsSplits, TaskSet


def test_no_seed_is_in_two_splits():
    tasks = SeedTasks("Game {}")
    seeds = {split: {tasks.at(split, n).metadata["seed"] for n in range(1000)} for split in tasks.splits}
    assert not seeds["train"] & seeds["test"]
    assert (tasks.size("train"), tasks.size("test")) == (None, 1000)
    assert isinstance(tasks, TaskSet)
    assert isinstance(tasks, KnowsSplits)
    assert tasks.get("test-999") == tasks.at("test", 999)
    assert tasks.split_of("train-123456") == "train"
    assert tasks.at("train", 0).content_hash != SeedTasks("Other {}").at("train", 0).content_hash


@pytest.mark.parametrize(
    "id", ["test-1000", "train--1", "train-007", "dev-0", "train", "train-1e3", "train-²"]
)
def test_there_is_no_other_id(id):
    with pytest.raises(UnknownTask):
        SeedTasks("Game {}").get(id)


def test_taxi_has_a_task_for_each_start_and_none_is_in_two_splits():
    tasks = make("turngym/Taxi-v0").tasks
    twin = gymnasium.make("Taxi-v4")
    starts = {}
    for split in tasks.splits:
        for index in range(tasks.size(split)):
            task = tasks.at(split, index)
            state, _ = twin.reset(seed=task.metadata["seed"])
            assert task.id == f"start-{state}"
            starts.setdefault(split, set()).add(state)
    assert (len(starts["train"]), len(starts["test"])) == (240, 60)
    assert not starts["train"] & starts["test"]
    assert {int(s) for s in starts["train"] | starts["test"]} == set(
        twin.unwrapped.initial_state_distrib.nonzero()[0].tolist()
    )


@pytest.mark.parametrize("size", [4, 8])
def test_random_lakes_have_a_way_over_and_are_in_one_split_each(size):
    tasks = random_lakes("lake", size)
    maps = {
        split: [tuple(tasks.at(split, n).metadata["arguments"]["desc"]) for n in range(60)]
        for split in tasks.splits
    }
    assert not set(maps["train"]) & set(maps["test"])
    for rows in maps["train"] + maps["test"]:
        assert len(rows) == size
        assert is_valid([list(row) for row in rows], size)
