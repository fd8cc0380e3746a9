from __future__ import annotations

import sys
import types

import gymnasium
import pytest
import torch

from turngym.envs import Env, ListTasks, Task, register, user
from turngym.trainer.config import parse_config
from turngym.trainer.errors import ConfigError
from turngym.trainer.preflight import eval_split, open_env, preflight, teacher_policy

DATA = {
    "steps": 1,
    "env": {"id": "turngym/Calculator-v0"},
    "model": {"path": "tiny"},
    "sft": {},
    "algorithm": {"preset": "grpo"},
}


def test_a_sound_configuration_passes():
    preflight(parse_config(DATA))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"rollout": {"group_size": 1}},
            ["rollout.group_size = 1", "write group_size = 8", "reinforce, ppo"],
        ),
        ({"algorithm": {"preset": "ppo", "minibatches": 200}}, ["minibatches = 200", "only 128 episodes"]),
        ({"env": {"id": "turngym/Calculater-v0"}}, ["env:", "turngym/Calculator-v0"]),
        ({"env": {"id": "turngym/Calculator-v0", "split": "trian"}}, ["env:", "trian", "train"]),
        ({"env": {"id": "turngym/Calculator-v0", "kwargs": {"easy": True}}}, ["env:", "easy"]),
        ({"env": {"id": "turngym/Calculator-v0", "tools": ["abacus"]}}, ["env:", "abacus"]),
        ({"sft": {"policy": "exprt"}}, ["sft.policy:", "exprt", "expert"]),
        (
            {"model": {"path": "no/such/model"}},
            ["model.path = 'no/such/model'", "does not exist", "Write tiny or"],
        ),
        ({"eval": {"split": "dev"}}, ["eval.split = 'dev'", "train, test"]),
        ({"env": {"id": "turngym/GuessNumber-v0", "task_tags": ["hard"]}}, ["task_tags", "hard"]),
        ({"env": {"id": "turngym/GuessNumber-v0", "task_ids": ["hard"]}}, ["env.task_ids", "hard"]),
        (
            {"env": {"id": "turngym/Calculator-v0", "kwargs": {"split": "test"}}},
            ["env.kwargs.split", "env.split"],
        ),
        (
            {"env": {"id": "turngym/Calculator-v0", "kwargs": {"least": "abc"}}},
            ["env:", "could not be made", "least"],
        ),
        (
            {"env": {"id": "turngym/GuessNumber-v0", "kwargs": {"high": -1}}},
            ["env:", "could not be made", "low ≤ high"],
        ),
        ({"env": {"id": "nosuch_module:Env-v0"}}, ["env:", "'nosuch_module' cannot be imported"]),
        ({"model": {"path": "~nosuchuser/model"}}, ["model.path", "~nosuchuser is nobody's home folder"]),
        ({"model": {"path": "tiny", "device": "gpu"}}, ["model.device = 'gpu'", "this machine has cpu"]),
        (
            {"model": {"path": "tiny", "device": "cuda:99"}},
            ["model.device = 'cuda:99'", "this machine has cpu"],
        ),
    ],
)
def test_what_cannot_work_is_named_with_what_to_write(change, words):
    with pytest.raises(ConfigError) as caught:
        preflight(parse_config(DATA | change))
    for word in words:
        assert word in str(caught.value)


class _Tagged(Env):
    """A training task with a tag that no test task has."""

    def __init__(self, *, split=None):
        train = Task(id="a", prompt=(user("?"),), tags=("easy",))
        super().__init__(
            tasks=ListTasks(train=[train], test=[Task(id="b", prompt=(user("!"),))]), split=split
        )

    def step(self, action):
        return (), 0.0, True, False, {}


class _Broken(Env):
    def __init__(self, *, split=None):
        raise RuntimeError("no licence\nhere")


@pytest.fixture
def registered():
    register("t/Tagged-v0", _Tagged)
    register("t/Broken-v0", _Broken)
    yield
    for id in ("t/Tagged-v0", "t/Broken-v0"):
        gymnasium.registry.pop(id)


def test_tags_must_leave_something_to_evaluate(registered):
    data = {**DATA, "env": {"id": "t/Tagged-v0", "task_tags": ["easy"]}, "sft": {"policy": "null"}}
    with pytest.raises(
        ConfigError, match=r"eval\.split: there is no task in split 'test' with a tag among easy"
    ):
        preflight(parse_config(data))
    preflight(parse_config(data | {"eval": {"tasks": 0}}))
    preflight(parse_config(data | {"eval": {"split": "train"}}))


def test_an_environment_that_raises_is_quoted_in_a_line(registered):
    with pytest.raises(ConfigError) as caught:
        preflight(parse_config(DATA | {"env": {"id": "t/Broken-v0"}}))
    assert (
        str(caught.value)
        == "env: the environment t/Broken-v0 could not be made: RuntimeError: no licence here"
    )


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1"])
def test_devices_that_are_there(monkeypatch, device):
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda check_available: torch.device("cuda")
    )
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    preflight(parse_config(DATA | {"model": {"path": "tiny", "device": device}}))
    with pytest.raises(
        ConfigError, match="this machine has cpu, cuda:0, cuda:1: write one of these, or auto"
    ):
        preflight(parse_config(DATA | {"model": {"path": "tiny", "device": "cuda:2"}}))


@pytest.mark.parametrize(
    ("tracking", "module", "extra"),
    [
        ({"wandb": "gym"}, "wandb", "wandb"),
        ({"trackio": "gym"}, "trackio", "trackio"),
        ({}, "tensorboard", "train"),
    ],
)
def test_a_tracker_that_is_not_installed_names_its_extra_before_anything_is_loaded(
    monkeypatch, tracking, module, extra
):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf'tracking\.{module} .*pip install "turngym\[{extra}\]"'):
        preflight(parse_config(DATA | {"tracking": tracking}))
    monkeypatch.setitem(sys.modules, module, types.ModuleType(module))
    preflight(parse_config(DATA | {"tracking": tracking}))


def test_a_group_of_one_is_fine_where_nothing_is_compared():
    preflight(parse_config(DATA | {"algorithm": {"preset": "ppo"}, "rollout": {"group_size": 1}}))


def test_the_test_split_is_the_default_for_evaluation():
    config = parse_config(DATA)
    assert eval_split(config, open_env(config.env)) == "test"
    config = parse_config(DATA | {"eval": {"split": "train"}})
    assert eval_split(config, open_env(config.env)) == "train"


def test_without_a_warm_start_nobody_is_imitated():
    assert teacher_policy(parse_config({key: value for key, value in DATA.items() if key != "sft"})) is None
    assert teacher_policy(parse_config(DATA)) is not None
