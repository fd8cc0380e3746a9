"""The files of a package, beside the environment itself."""

from __future__ import annotations

from typing import Final

_PYPROJECT: Final = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "$name"
version = "0.1.0"
description = "The environment $id for turngym"
requires-python = ">=3.11"
dependencies = ["turngym"]

[project.optional-dependencies]
dev = ["pytest"]

# How turngym finds it: `turngym.make`, `turngym envs list` and the command line import this module.
[project.entry-points."turngym.envs"]
$module = "$module"

[tool.setuptools]
packages = ["$module"]
"""

_INIT: Final = '''\
"""Environments for turngym; importing this registers them, and loads none of them."""

from turngym.envs import register

register("$id", "$module.environment:$cls")
'''

_TEST: Final = '''\
"""The environment keeps turngym's laws: `python -m pytest`."""

import $module  # registers it
from turngym.envs import check, make, reference_policy

ID = "$id"


def test_it_keeps_every_law():
    broken = [result for result in check(ID, tasks=8, episodes=40) if not result.ok]
    assert broken == []


def test_the_expert_solves_a_task_of_the_test_split():
    env, expert = make(ID, split="test"), reference_policy(ID, "expert")
    env.reset(seed=0)
    is_over = False
    while not is_over:
        _, reward, is_over, _, info = env.step(expert(env.task, env.history, env.np_random))
    assert info["metrics"]["success"] == 1.0
    assert reward == env.reward_range[1]
    assert $module.__doc__
'''

_README: Final = """\
# $name

The environment `$id` for [turngym](https://pypi.org/project/turngym/).

    pip install -e ".[dev]"                            # then turngym finds it by its entry point
    turngym envs check $id
    python -m pytest
    turngym play $id
    turngym eval $id --agent expert -n 100
    turngym train train.toml                           # a tiny model learns it on a CPU

`$module/environment.py` is the environment, `$module/__init__.py` registers it, `train.toml` is the training run.
"""

_TRAIN: Final = """\
# turngym train train.toml
#
#   1. Warm start: a model with half a million parameters imitates the policy "sloppy", which errs one time in five.
#   2. GRPO: the environment's reward alone. The policy becomes better than whom it learned from.
#
# docs/training.md of turngym explains every key; any of them can be set: --set steps=20 --set model.path=smollm2-135m

seed = 0
steps = 70

[env]
id = "$id"

[model]
path = "tiny"

[sft]
policy = "sloppy"
episodes = 6000
steps = 2300
lr = 2e-3
batch_tokens = 2048

[algorithm]
preset = "grpo"

[rollout]
groups_per_step = 32
group_size = 8
max_turn_tokens = 48
max_turns = 8
max_tokens = 512
concurrency = 256

[optim]
lr = 5e-4
schedule = "linear"
betas = [0.9, 0.95]
warmup_steps = 3
micro_batch_tokens = 16384

[eval]
tasks = 500
"""

_IGNORED: Final = """\
__pycache__/
*.egg-info/
runs/
"""

FILES: Final[dict[str, str]] = {
    "pyproject.toml": _PYPROJECT,
    "README.md": _README,
    "train.toml": _TRAIN,
    ".gitignore": _IGNORED,
    "$module/__init__.py": _INIT,
    "tests/test_$module.py": _TEST,
}
"""The texts by path."""
