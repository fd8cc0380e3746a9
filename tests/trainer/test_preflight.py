from __future__ import annotations

import pytest

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
    ],
)
def test_what_cannot_work_is_named_with_what_to_write(change, words):
    with pytest.raises(ConfigError) as caught:
        preflight(parse_config(DATA | change))
    for word in words:
        assert word in str(caught.value)


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
