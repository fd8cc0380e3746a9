from __future__ import annotations

import tomllib

import pytest
from pydantic import ValidationError

from turngym.trainer.algorithms import PRESETS
from turngym.trainer.config import load_config, parse_config, to_toml
from turngym.trainer.errors import ConfigError

TOML = """
steps = 30

[env]
id = "turngym/Calculator-v0"
kwargs = { hard = true, "odd key" = [1, 2] }

[model]
path = "tiny"

[sft]
steps = 40

[algorithm]
preset = "grpo"
std = "none"

[rollout]
group_size = 4
"""

DATA = tomllib.loads(TOML)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(TOML)
    return path


def test_a_preset_and_its_overrides_become_one_row(path):
    config = load_config(path)
    assert config.algorithm == PRESETS["grpo"].override({"std": "none"})
    assert config.sft is not None
    assert config.sft.steps == 40
    assert config.episodes_per_step == 16 * 4


def test_overrides_from_the_command_line(path):
    config = load_config(
        path,
        [
            "algorithm.preset=ppo",
            "algorithm.value_clip=none",
            "optim.lr=3e-4",
            "model.path=some/folder",
            "env.tools=['calculator']",
            "health.min_entropy=0",
        ],
    )
    assert config.algorithm.advantage == "gae"
    assert config.algorithm.value_clip is None
    assert config.optim.lr == 3e-4
    assert config.model.path == "some/folder"
    assert config.env.tools == ("calculator",)


@pytest.mark.parametrize(
    "override",
    ["steps", "", "=", "=3", " =3", "a..b=3", "a. =3", "steps.x=3", "steps=1\nseed=5", "optim.lr=1\n[x]"],
)
def test_an_override_that_cannot_be_read(path, override):
    with pytest.raises(ConfigError, match="--set") as caught:
        load_config(path, [override])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("steps=true", "steps: Input should be a valid integer (it is True)"),
        ("steps=2.0", "steps: Input should be a valid integer (it is 2.0)"),
        ("steps='3'", "steps: Input should be a valid integer (it is '3')"),
        ("optim.lr=true", "optim.lr: Input should be a valid number (it is True)"),
        ("optim.recompute=1", "optim.recompute: Input should be a valid boolean (it is 1)"),
        ("algorithm.gamma_turn=true", "algorithm.gamma_turn: Input should be a valid number (it is True)"),
        ("health.min_entropy=false", "health.min_entropy: Input should be a valid number (it is False)"),
        ("env.tools=['a', 1]", "env.tools.1: Input should be a valid string (it is 1)"),
        ("tracking.wandb=true", "tracking.wandb: write the name of the project to log to"),
        ("tracking.trackio=false", "tracking.trackio: write the name of the project to log to"),
        ("optim.betas=[0.9, 1]", "optim.betas.1: Input should be less than 1 (it is 1)"),
        ("optim.betas=[-0.1, 0.9]", "optim.betas.0: Input should be greater than or equal to 0"),
        ("optim.betas=[0.9]", "optim.betas.1 is missing"),
        ("seed=-1", "seed: Input should be greater than or equal to 0 (it is -1)"),
        (f"seed={2**64}", "seed: Input should be less than 9223372036854775808"),
        (f"seed={hex(16**5000)}", "(it is a number of thousands of digits)"),
        ("algorithm.preset=['grpo']", "algorithm: no preset ['grpo']: did you mean grpo?; there are"),
        ("algorithm.preset=3", "algorithm: no preset 3; there are dr_grpo"),
        ("algorithm.preset={a = 1}", "algorithm: no preset {'a': 1}; there are dr_grpo"),
        ("algorithm=grpo", "algorithm: "),
        ("optim=3", "optim: "),
        ("env.id=[]", "env.id: Input should be a valid string (it is [])"),
        ("'a\nb'=3", "unknown key \"'a\\nb'\""),
        (f"{'.'.join('a' * 100)}=1", "nested too deeply"),
        (f"env.kwargs.{'.'.join('a' * 100)}=1", "nested too deeply"),
    ],
)
def test_a_value_of_another_type_or_out_of_bounds_is_named(path, override, words):
    with pytest.raises(ConfigError) as caught:
        load_config(path, [override])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_seeds_up_to_what_toml_can_write(path):
    assert load_config(path, [f"seed={2**63 - 1}"]).seed == 2**63 - 1


def test_the_resolved_configuration_reads_back_to_itself(path, tmp_path):
    for config in (
        load_config(path),
        load_config(path, ["algorithm.preset=ppo", "seed=3", "env.task_tags=['a\"b']"]),
        load_config(
            path,
            [
                "env.system_prompt='go 😀 \x7f'",
                "env.kwargs={'😀 é' = '問', x = [inf, -inf, 1e-9, 2026-01-02]}",
            ],
        ),
    ):
        (tmp_path / "resolved.toml").write_text(to_toml(config))
        assert load_config(tmp_path / "resolved.toml") == config


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stepz": 3}, "unknown key stepz: did you mean steps?"),
        ({"optim": {"learning_rat": 1}}, "unknown key optim.learning_rat. Known here: betas"),
        ({"rollout": {"groupsize": 1}}, "unknown key rollout.groupsize: did you mean group_size?"),
        ({"sft": {"stpes": 1}}, "unknown key sft.stpes: did you mean steps?"),
        (
            {"algorithm": {"preset": "grpo", "advantag": 1}},
            "unknown key algorithm.advantag: did you mean advantage?",
        ),
        ({"algorithm": {"preset": "grppo"}}, "no preset 'grppo': did you mean grpo?; there are dr_grpo"),
        (
            {"algorithm": {"preset": "grpo", "clip_low": 2}},
            "algorithm.clip_low: Input should be less than 1 (it is 2)",
        ),
        (
            {"optim": {"schedule": "cosin"}},
            "optim.schedule: no such schedule; there are constant, linear, cosine",
        ),
        ({"optim": {"lr": -1}}, "optim.lr: Input should be greater than 0 (it is -1)"),
        ({"health": {"min_entropy": -1}}, "health.min_entropy: Input should be greater than or equal to 0"),
        ({"rollout": {"temperature": 0}}, "rollout.temperature: Input should be greater than 0"),
        ({"model": {}}, "model.path is missing"),
    ],
)
def test_a_bad_key_or_value_is_named_with_what_to_write(change, words):
    with pytest.raises(ConfigError) as caught:
        parse_config(DATA | change)
    assert words in str(caught.value)


def test_every_problem_is_named_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_config({})
    assert [line.split()[0] for line in str(caught.value).splitlines()] == [
        "steps",
        "env",
        "model",
        "algorithm",
    ]


def test_no_such_file_and_no_toml(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "absent.toml")
    (tmp_path / "bad.toml").write_text("steps = = 3")
    with pytest.raises(ConfigError, match="is not TOML"):
        load_config(tmp_path / "bad.toml")


def test_a_configuration_is_frozen(path):
    config = load_config(path)
    with pytest.raises(ValidationError):
        config.steps = 3  # type: ignore[misc]
