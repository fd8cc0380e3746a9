from __future__ import annotations

import sys
import types

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from turngym.envs.errors import MissingExtra
from turngym.evaluation.store import RunStore
from turngym.trainer.config import parse_config
from turngym.trainer.tracking import Trackers


def _config(**tracking):
    return parse_config(
        {
            "steps": 2,
            "env": {"id": "turngym/Calculator-v0"},
            "model": {"path": "tiny"},
            "algorithm": {"preset": "grpo"},
            "tracking": tracking,
        }
    )


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path) as store:
        yield store


def test_figures_go_to_the_run_store_and_to_tensorboard(tmp_path, store):
    with Trackers.open(_config(), tmp_path, store, done={}) as trackers:
        for step in (1, 2, 3):
            trackers.log("train", step, {"reward": step / 4})
    with Trackers.open(_config(), tmp_path, store, done={"train": 1}) as trackers:  # resumed after step 1
        trackers.log("train", 2, {"reward": 9.0})
    assert store.metrics("train") == [(1, {"reward": 0.25}), (2, {"reward": 9.0}), (3, {"reward": 0.75})]
    events = EventAccumulator(str(tmp_path / "tensorboard" / "train"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("train/reward")] == [(1, 0.25), (2, 9.0)]


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_service_is_one_key_away(tmp_path, store, monkeypatch, name):
    calls = []
    library = types.ModuleType(name)
    library.init = lambda **options: calls.append(("init", options["project"], options["config"]["steps"]))
    library.log = lambda figures: calls.append(("log", figures))
    library.finish = lambda: calls.append(("finish",))
    if name == "wandb":
        library.define_metric = lambda pattern, step_metric: calls.append(("axis", pattern, step_metric))
    monkeypatch.setitem(sys.modules, name, library)
    with Trackers.open(_config(tensorboard=False, **{name: "gym"}), tmp_path, store, done={}) as trackers:
        trackers.log("sft", 7, {"loss": 2.0})
        trackers.log("train", 1, {"reward": 0.5})
        trackers.log("train", 2, {"reward": 0.75})
    assert [call for call in calls if call[0] != "axis"] == [
        ("init", "gym", 2),
        ("log", {"sft/loss": 2.0, "sft/step": 7}),
        ("log", {"train/reward": 0.5, "train/step": 1}),
        ("log", {"train/reward": 0.75, "train/step": 2}),
        ("finish",),
    ]
    axes = [call[1:] for call in calls if call[0] == "axis"]
    assert axes == ([("sft/*", "sft/step"), ("train/*", "train/step")] if name == "wandb" else [])
    assert not (tmp_path / "tensorboard").exists()


def test_a_library_that_is_not_installed_names_its_extra(tmp_path, store, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(MissingExtra, match=r'pip install "turngym\[wandb\]"'):
        Trackers.open(_config(tensorboard=False, wandb="gym"), tmp_path, store, done={})
