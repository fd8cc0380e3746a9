from __future__ import annotations

import asyncio
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from turngym.agents.models import load_model, save_checkpoint
from turngym.agents.simple import ScriptedAgent, noise_generator
from turngym.agents.types import Action, Tokens
from turngym.envs.messages import assistant
from turngym.evaluation.errors import NotAStore
from turngym.evaluation.runner import evaluate
from turngym.evaluation.store import RunStore
from turngym.trainer import loop
from turngym.trainer.config import load_config, parse_config, to_toml
from turngym.trainer.errors import CheckpointError, ConfigError, HealthError
from turngym.trainer.learn import learn
from turngym.trainer.loop import atrain, chat_agent, train
from turngym.trainer.progress import PlainProgress, SilentProgress

GUESS = {
    "steps": 6,
    "env": {"id": "turngym/GuessNumber-v0", "kwargs": {"high": 3, "max_wrong": 2}},
    "model": {"path": "tiny", "device": "cpu"},
    "algorithm": {"preset": "grpo"},
    "rollout": {
        "groups_per_step": 4,
        "group_size": 4,
        "max_turn_tokens": 6,
        "max_turns": 4,
        "max_tokens": 128,
    },
    "optim": {"lr": 1e-3},
    "eval": {"tasks": 0},
    "checkpoint": {"every": 2},
    "health": {"min_entropy": 0.0, "max_logprob_gap": 100.0},
    "tracking": {"tensorboard": False},
}


def scripted(run, temperature):
    """Guesses at random, in made-up tokens: what it says does not depend on the policy."""

    def script(episode):
        rng = noise_generator(episode.noise)
        while True:
            guess = int(rng.integers(4))
            ids = (100 + guess, *rng.integers(512, size=2).tolist())
            yield Action(assistant(str(guess)), Tokens((7, 8, 9), ids, (-1.0,) * 3), policy_version=run.step)

    return ScriptedAgent(script)


def _train(out, *, make_agent=None, progress=None, resume=False, **changes):
    config = parse_config(GUESS | changes)
    options = {} if make_agent is None else {"make_agent": make_agent}
    return train(config, out=out, resume=resume, progress=progress or SilentProgress(), **options)


def _figures(out):
    """The figures of a run's steps, without those that are measured with a clock."""
    with RunStore(out, read_only=True) as store:
        steps = store.metrics("train")
    assert [step for step, _ in steps] == list(range(1, len(steps) + 1))
    return [{n: v for n, v in figures.items() if not n.endswith("_s")} for _, figures in steps]


def _weights(out):
    return load_model(str(Path(out) / "final"), device="cpu").model.state_dict()


def _records(out):
    with RunStore(out, read_only=True) as store:
        return sorted((*summary.key, summary.reward) for summary in store.summaries())


class _StopAfter(PlainProgress):
    """Presses Ctrl-C when a step of a part of the run is done."""

    def __init__(self, step, part="train", stream=None):
        super().__init__(stream or io.StringIO())
        self._step = step
        self._part = part

    def begin(self, what, total, done=0):
        super().begin(what, total, done)
        self._now = what

    def step(self, number, figures):
        if (self._now, number) == (self._part, self._step):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_run_leaves_all_that_a_person_wants(tmp_path):
    stream = io.StringIO()
    evaluation = {"split": "train", "tasks": 4, "samples": 2, "every": 4}
    report = _train(
        tmp_path,
        eval=evaluation,
        tracking={"tensorboard": True},
        sft={"policy": "random", "episodes": 20, "steps": 5},
        progress=PlainProgress(stream),
    )
    assert report.steps == 6
    assert not report.interrupted
    assert report.before is not None
    assert report.after is not None
    assert report.after.success is not None
    assert report.after.success.episodes == 8
    assert {path.name for path in tmp_path.iterdir()} >= {
        "run.sqlite", "config.toml", "checkpoints", "final", "curve.png", "transcripts", "tensorboard",
    }  # fmt: skip
    assert load_config(tmp_path / "config.toml").rollout.group_size == 4
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"step-000004", "step-000006"}
    assert load_model(str(report.model), device="cpu").model.num_parameters() > 0
    with RunStore(tmp_path, read_only=True) as store:
        evaluations = [("eval/train", 0), ("eval/train", 4), ("eval/train", 6)]
        assert store.phases() == [*evaluations, ("sft", 0), *(("train", step) for step in range(1, 7))]
        assert store.get_meta("config")["steps"] == 6
        assert len(store.metrics("sft")) == 5
    lines = stream.getvalue()
    assert "train 6/6" in lines
    assert "Evaluation at step 6" in lines
    assert "success" in str(report)


@pytest.mark.parametrize("preset", ["grpo", "ppo"])
def test_a_resumed_run_is_bit_equal_with_a_scripted_agent(tmp_path, preset):
    changes = {
        "make_agent": scripted,
        "algorithm": {"preset": preset, "epochs": 2, "minibatches": 2},
        "optim": {"lr": 1e-3, "schedule": "cosine", "warmup_steps": 3},
    }
    _train(tmp_path / "whole", **changes)
    stopped = _train(tmp_path / "parts", progress=_StopAfter(3), **changes)
    assert stopped.interrupted
    assert stopped.steps == 3
    resumed = _train(tmp_path / "parts", resume=True, **changes)
    assert resumed.steps == 6
    assert _figures(tmp_path / "parts") == _figures(tmp_path / "whole")
    assert _records(tmp_path / "parts") == _records(tmp_path / "whole")
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(value, whole[name]) for name, value in _weights(tmp_path / "parts").items())


@pytest.mark.parametrize("trunk", ["shared", "separate"])
def test_a_resumed_run_gives_the_same_numbers_with_a_model(tmp_path, trunk):
    changes = {
        "algorithm": {"preset": "ppo", "kl_coef": 0.01},
        "critic": {"trunk": trunk, "warmup_steps": 1},
        "sft": {"policy": "random", "episodes": 20, "steps": 5},
        "eval": {"split": "train", "tasks": 4},
    }
    _train(tmp_path / "whole", **changes)
    assert _train(tmp_path / "parts", progress=_StopAfter(3), **changes).interrupted
    report = _train(tmp_path / "parts", resume=True, **changes)
    assert report.before is not None
    assert report.before.new_episodes == 0, "the evaluation before training is not played again"
    for resumed, whole in zip(_figures(tmp_path / "parts"), _figures(tmp_path / "whole"), strict=True):
        assert resumed == pytest.approx(whole, rel=1e-5, abs=1e-5)
    assert _records(tmp_path / "parts") == _records(tmp_path / "whole")


def test_an_interrupted_warm_start_goes_on_with_the_same_numbers(tmp_path):
    changes = {"sft": {"policy": "random", "episodes": 20, "steps": 6}, "steps": 1}
    _train(tmp_path / "whole", **changes)
    stream = io.StringIO()
    stopped = _train(tmp_path / "parts", progress=_StopAfter(3, "warm start", stream), **changes)
    assert stopped.interrupted
    assert "Stopped during the warm start. Run the same with --resume" in stream.getvalue()
    resumed = io.StringIO()
    _train(tmp_path / "parts", progress=PlainProgress(resumed), resume=True, **changes)
    assert "Playing" not in resumed.getvalue(), "its episodes are in the store"
    assert "warm start 4/6" in resumed.getvalue()
    assert "warm start 3/6" not in resumed.getvalue()
    assert _records(tmp_path / "parts") == _records(tmp_path / "whole")
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(value, whole[name]) for name, value in _weights(tmp_path / "parts").items())
    assert not (tmp_path / "parts" / "warm-start").exists()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_training_begins_at_the_weights_that_the_warm_start_ended_with(tmp_path, dtype):
    changes = {"sft": {"policy": "random", "episodes": 20, "steps": 5}, "steps": 1}
    changes |= {"model": {"path": "tiny", "device": "cpu", "dtype": dtype}, "optim": {"lr": 1e-12}}
    _train(tmp_path / "warm", **changes | {"steps": 0})
    _train(tmp_path / "run", **changes)
    _train(tmp_path / "cold", **{key: value for key, value in changes.items() if key != "sft"})
    warm, after, cold = (_weights(tmp_path / name) for name in ("warm", "run", "cold"))
    assert all(torch.allclose(value, warm[name], atol=1e-6, rtol=0) for name, value in after.items())
    assert not all(torch.allclose(value, cold[name], atol=1e-6, rtol=0) for name, value in after.items())


def test_a_separate_critic_begins_at_the_policy_after_the_warm_start(tmp_path):
    changes = {"sft": {"policy": "random", "episodes": 20, "steps": 5}, "steps": 0}
    changes |= {"algorithm": {"preset": "ppo"}, "critic": {"trunk": "separate"}}
    _train(tmp_path, **changes)
    policy = _weights(tmp_path)
    critic = torch.load(tmp_path / "checkpoints" / "step-000000" / "trainer.pt", weights_only=True)["critic"]
    copied = {
        name.removeprefix("trunk."): value for name, value in critic.items() if name.startswith("trunk.")
    }
    assert copied
    assert all(torch.equal(value, policy[f"model.{name}"]) for name, value in copied.items())


def test_an_evaluation_that_was_interrupted_is_finished(tmp_path):
    changes = {"eval": {"split": "train", "tasks": 4, "every": 2}}
    _train(tmp_path / "whole", make_agent=scripted, **changes)
    stopped = _train(tmp_path / "parts", make_agent=interrupted_at(4), **changes)
    assert stopped.interrupted
    with RunStore(tmp_path / "parts", read_only=True) as store:
        assert store.get_meta("report/eval/train/4") is None
    _train(tmp_path / "parts", make_agent=scripted, resume=True, **changes)
    with RunStore(tmp_path / "parts", read_only=True) as store:
        assert [step for step in range(7) if store.get_meta(f"report/eval/train/{step}")] == [0, 2, 4, 6]
    assert _records(tmp_path / "parts") == _records(tmp_path / "whole")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_interrupted_evaluation_of_a_model_is_finished_by_the_same_weights(tmp_path, dtype):
    changes = {
        "model": {"path": "tiny", "device": "cpu", "dtype": dtype},
        "eval": {"split": "train", "tasks": 4, "every": 2},
        "algorithm": {"preset": "ppo", "entropy_coef": 0.1},
        "checkpoint": {"every": 100},
        "steps": 4,
    }

    def interrupted(run, temperature):
        agent = chat_agent(run, temperature)
        start, pressed = agent.start, []

        def counted(episode):
            if run.step == 2 and episode.noise.step == 0 and len(pressed) < 3:  # not training
                pressed.append(True)
                if len(pressed) == 3:
                    os.kill(os.getpid(), signal.SIGINT)
            return start(episode)

        agent.start = counted
        return agent

    small = {"rollout": GUESS["rollout"] | {"concurrency": 2}}
    assert _train(tmp_path, make_agent=interrupted, **changes, **small).interrupted
    with RunStore(tmp_path) as store:
        assert 0 < len(store.done("eval/train", 2)) < 4
    report = _train(tmp_path, resume=True, **changes, **small)
    assert report.steps == 4
    assert report.before is not None
    assert (report.before.step, report.before.new_episodes) == (0, 0)
    with RunStore(tmp_path) as store:
        assert [step for step in range(5) if store.get_meta(f"report/eval/train/{step}")] == [0, 2, 4]
        weights = {
            store.get_meta(f"config/eval/train/{step}")["policy"]["engine"]["weights"] for step in (0, 2, 4)
        }
    assert len(weights) == 3


def test_what_a_killed_attempt_evaluated_after_its_last_checkpoint_is_forgotten(tmp_path):
    changes = {
        "eval": {"split": "train", "tasks": 4, "every": 2},
        "make_agent": scripted,
        "checkpoint": {"every": 3},
    }
    _train(tmp_path, **changes, steps=5)
    shutil.rmtree(tmp_path / "checkpoints" / "step-000005")
    with RunStore(tmp_path) as store:  # another policy's, as the next attempt's would be to the last digit
        store.set_meta("config/eval/train/4", {"policy": "another"})
    report = _train(tmp_path, **changes, steps=5, resume=True)
    assert report.steps == 5
    with RunStore(tmp_path) as store:
        assert store.get_meta("config/eval/train/4")["split"] == "train"


def interrupted_at(step):
    """Makes scripted agents; somebody presses Ctrl-C as the evaluation after so many steps begins."""

    def make_agent(run, temperature):
        played = scripted(run, temperature)
        start, pressed = played.start, []

        def counted(episode):
            if run.step == step and episode.noise.step != step + 1 and not pressed:  # not training
                pressed.append(True)
                os.kill(os.getpid(), signal.SIGINT)
            return start(episode)

        played.start = counted
        return played

    return make_agent


def test_a_step_in_which_every_episode_failed_is_judged_by_the_health_guard(tmp_path):
    def broken(run, temperature):
        def script(episode):
            raise OSError("no route to the machine")
            yield

        return ScriptedAgent(script)

    with pytest.raises(HealthError, match=r"step 1: 100% of the episodes failed.*no route to the machine"):
        _train(tmp_path, make_agent=broken)
    assert (tmp_path / "checkpoints" / "step-000001").exists()
    stream = io.StringIO()
    report = _train(
        tmp_path / "patient",
        make_agent=broken,
        steps=1,
        health={"max_failed_share": 1.0},
        progress=PlainProgress(stream),
    )
    assert report.steps == 1
    assert "step 1: no episode is left to learn from" in stream.getvalue()


def test_an_evaluation_with_failures_names_the_most_common_error(tmp_path):
    def broken_in_evaluation(run, temperature):
        played = scripted(run, temperature)
        start = played.start

        def start_or_fail(episode):
            if episode.noise.step == 0:
                raise OSError("no route to the machine")
            return start(episode)

        played.start = start_or_fail
        return played

    stream = io.StringIO()
    evaluation = {"split": "train", "tasks": 4}
    changes = {"make_agent": broken_in_evaluation, "steps": 1, "eval": evaluation}
    _train(tmp_path, **changes, progress=PlainProgress(stream))
    words = "4 of 4 episodes failed and are in no mean, most often by: OSError: no route to the machine"
    assert stream.getvalue().count(words) == 2


def test_parts_of_a_run_without_its_store_are_not_mistaken_for_a_new_run(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=2)
    (tmp_path / "run.sqlite").unlink()
    for resume in (False, True):
        with pytest.raises(ConfigError, match=r"has checkpoints, config\.toml.* but no run\.sqlite"):
            _train(tmp_path, make_agent=scripted, steps=2, resume=resume)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path):
    (tmp_path / "config.toml").write_text("# mine")
    (tmp_path / "final").mkdir()
    with pytest.raises(
        ConfigError, match=r"has config\.toml, final, but no run\.sqlite: it is no folder of a run"
    ):
        _train(tmp_path, make_agent=scripted, steps=1)
    assert (tmp_path / "config.toml").read_text() == "# mine"
    assert {path.name for path in tmp_path.iterdir()} == {"config.toml", "final"}


def test_a_run_that_can_never_learn_is_stopped(tmp_path):
    with pytest.raises(
        HealthError, match=r"step 1: not one token was sampled in 16 episodes.*rollout\.max_tokens"
    ):
        _train(tmp_path, rollout=GUESS["rollout"] | {"max_tokens": 2})


def test_an_update_that_breaks_the_weights_is_not_kept(tmp_path):
    optim = {"lr": 1e39}  # more than float32 holds
    with pytest.raises(HealthError, match=r"step 1: after the update, .*not finite.*optim\.lr.*begin again"):
        _train(tmp_path, make_agent=scripted, optim=optim)
    assert not (tmp_path / "checkpoints").exists()


def test_a_run_whose_weights_break_later_goes_on_from_the_last_sound_checkpoint(tmp_path, monkeypatch):
    _train(tmp_path / "whole", make_agent=scripted, steps=6)
    sound = loop.learn

    def breaks(learner, *args, step, **options):
        figures = sound(learner, *args, step=step, **options)
        if step == 4:
            with torch.no_grad():
                next(learner.model.parameters()).view(-1)[0] = torch.nan
        return figures

    monkeypatch.setattr(loop, "learn", breaks)
    for resume in (False, True):
        with pytest.raises(HealthError, match=r"step 4 is not saved: policy\..* has entries .*step-000002"):
            _train(tmp_path / "parts", make_agent=scripted, steps=6, resume=resume)
    monkeypatch.setattr(loop, "learn", sound)
    assert [path.name for path in (tmp_path / "parts" / "checkpoints").iterdir()] == ["step-000002"]
    _train(tmp_path / "parts", make_agent=scripted, steps=6, resume=True)
    whole = _weights(tmp_path / "whole")
    assert all(torch.equal(value, whole[name]) for name, value in _weights(tmp_path / "parts").items())


def test_a_warm_start_that_breaks_the_weights_is_not_kept(tmp_path):
    sft = {"policy": "random", "episodes": 20, "steps": 5, "lr": 1e39}
    with pytest.raises(HealthError, match=r"warm start, step 1: .*not finite.*sft\.lr"):
        _train(tmp_path, sft=sft)
    assert not (tmp_path / "checkpoints").exists()
    assert not (tmp_path / "warm-start").exists()


def test_a_model_with_broken_weights_is_refused(tmp_path):
    _train(tmp_path / "run", make_agent=scripted, steps=4)
    broken = load_model("tiny", device="cpu")
    with torch.no_grad():
        broken.model.lm_head.weight[0, 0] = torch.inf
    save_checkpoint(broken, tmp_path / "broken")
    with pytest.raises(ConfigError, match=r"model\.path = .*broken.*not finite"):
        _train(tmp_path / "other", model={"path": str(tmp_path / "broken"), "device": "cpu"})
    checkpoints = tmp_path / "run" / "checkpoints"
    shutil.copy(tmp_path / "broken" / "model.safetensors", checkpoints / "step-000004" / "model.safetensors")
    with pytest.raises(
        CheckpointError, match=r"step-000004: .*not finite.*resume from the one before it, step-000002"
    ):
        _train(tmp_path / "run", make_agent=scripted, resume=True)
    shutil.rmtree(checkpoints / "step-000004")
    assert _train(tmp_path / "run", make_agent=scripted, resume=True, steps=4).steps == 4


def test_a_step_that_the_guard_stops_takes_no_sound_checkpoint_away(tmp_path):
    changes = {"make_agent": scripted, "checkpoint": {"every": 2, "keep": 1}}
    _train(tmp_path, **changes, steps=2)
    health = {"min_entropy": 100.0, "max_logprob_gap": 100.0}
    with pytest.raises(
        HealthError, match=r"step 3: entropy .*saved as .*step-000003; .*guard passed is .*step-000002"
    ):
        _train(tmp_path, **changes, health=health, resume=True)
    assert {path.name for path in (tmp_path / "checkpoints").iterdir()} == {"step-000002", "step-000003"}


@pytest.mark.parametrize("damage", ["truncated", "list", "optimiser", "renamed", "weights"])
def test_a_damaged_checkpoint_is_a_clear_error_and_the_one_before_it_is_taken(tmp_path, damage):
    _train(tmp_path / "whole", make_agent=scripted, steps=4)
    out = tmp_path / "parts"
    _train(out, make_agent=scripted, steps=4)
    last = out / "checkpoints" / "step-000004"
    state = last / "trainer.pt"
    if damage == "truncated":
        state.write_bytes(state.read_bytes()[:1000])
    elif damage == "list":
        torch.save([1, 2, 3], state)
    elif damage == "optimiser":
        torch.save(torch.load(state, weights_only=True) | {"optimisers": [{"adam": None}]}, state)
    elif damage == "renamed":
        shutil.rmtree(last)
        shutil.copytree(out / "checkpoints" / "step-000002", last)
    else:
        (last / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(CheckpointError, match=r"step-000004: .*resume from the one before it, step-000002$"):
        _train(out, make_agent=scripted, steps=4, resume=True)
    shutil.rmtree(last)
    assert _train(out, make_agent=scripted, steps=4, resume=True).steps == 4
    assert _figures(out) == _figures(tmp_path / "whole")
    assert _records(out) == _records(tmp_path / "whole")


def test_a_damaged_warm_start_is_a_clear_error(tmp_path):
    changes = {"sft": {"policy": "random", "episodes": 20, "steps": 6}, "steps": 1}
    assert _train(tmp_path, progress=_StopAfter(3, "warm start"), **changes).interrupted
    (state,) = (tmp_path / "warm-start").glob("*/trainer.pt")
    torch.save({"optimiser": {"updates": 3}}, state)
    with pytest.raises(CheckpointError, match=r"cannot resume from .*warm-start"):
        _train(tmp_path, resume=True, **changes)


@pytest.mark.parametrize("damage", ["{", "[]"])
def test_a_damaged_store_is_a_clear_error(tmp_path, damage):
    _train(tmp_path, make_agent=scripted, steps=2)
    with RunStore(tmp_path) as store:
        store._db.execute("UPDATE meta SET value = ? WHERE key = 'config'", (damage,))
    with pytest.raises(NotAStore, match=r"under 'config' .*Restore it from a copy"):
        _train(tmp_path, make_agent=scripted, steps=2, resume=True)


def test_an_empty_store_beside_checkpoints_is_refused(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=2)
    for leftover in tmp_path.glob("run.sqlite*"):
        leftover.unlink()
    (tmp_path / "run.sqlite").touch()
    with pytest.raises(
        CheckpointError, match=r"run\.sqlite is empty, but beside it there are checkpoints.* choose another"
    ):
        _train(tmp_path, make_agent=scripted, steps=2, resume=True)


def test_an_empty_store_of_an_attempt_that_was_killed_at_once_is_used(tmp_path):
    RunStore(tmp_path).close()
    (tmp_path / "config.toml").touch()
    assert _train(tmp_path, make_agent=scripted, steps=2, resume=True).steps == 2


def test_the_store_of_an_evaluation_is_no_run(tmp_path):
    evaluate("turngym/GuessNumber-v0", "expert", out=tmp_path, tasks=2)
    with pytest.raises(CheckpointError, match="holds an evaluation, no training run: choose another"):
        _train(tmp_path, make_agent=scripted, steps=2, resume=True)


def test_a_run_that_lost_its_checkpoints_is_refused(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=2)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(
        CheckpointError, match="was saved at step 2, but checkpoints has no checkpoint any more"
    ):
        _train(tmp_path, make_agent=scripted, steps=4, resume=True)
    assert len(_figures(tmp_path)) == 2, "nothing is forgotten"


def test_a_store_that_is_older_than_the_checkpoints_is_refused(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=3)
    shutil.copy(tmp_path / "run.sqlite", tmp_path / "copy")
    _train(tmp_path, make_agent=scripted, steps=4, resume=True)
    shutil.move(tmp_path / "copy", tmp_path / "run.sqlite")
    with pytest.raises(
        CheckpointError,
        match=r"step-000004 is newer than .*ends at step 3: .*delete the checkpoints after step-000003 to go on",
    ):
        _train(tmp_path, make_agent=scripted, steps=4, resume=True)
    shutil.rmtree(tmp_path / "checkpoints" / "step-000004")
    assert _train(tmp_path, make_agent=scripted, steps=4, resume=True).steps == 4
    assert len(_figures(tmp_path)) == 4


def test_a_finished_run_can_be_resumed_and_lengthened(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=2)
    assert _train(tmp_path, make_agent=scripted, steps=2, resume=True).steps == 2
    assert _train(tmp_path, make_agent=scripted, steps=4, resume=True).steps == 4
    assert len(_figures(tmp_path)) == 4


def test_it_works_where_a_loop_already_runs(tmp_path):
    async def notebook():
        return _train(tmp_path, make_agent=scripted, steps=2)

    assert asyncio.run(notebook()).steps == 2


def test_a_folder_with_a_run_is_not_overwritten(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=1)
    with pytest.raises(ConfigError, match="holds a run already: add --resume"):
        _train(tmp_path, make_agent=scripted, steps=1)
    with pytest.raises(
        ConfigError, match=r"begun with another rollout .*resume it with its own config\.toml"
    ):
        _train(
            tmp_path, make_agent=scripted, steps=1, resume=True, rollout=GUESS["rollout"] | {"group_size": 3}
        )


def test_a_missing_model_folder_is_named_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="no-such-model"):
        _train(tmp_path / "run", model={"path": str(tmp_path / "no-such-model")})
    with pytest.raises(ConfigError, match=r"rollout\.max_tokens = 5000, but tiny reads at most 2048"):
        _train(tmp_path / "run", rollout=GUESS["rollout"] | {"max_tokens": 5000})
    assert not (tmp_path / "run").exists()


def test_the_health_guard_stops_the_run_and_saves_it(tmp_path):
    with pytest.raises(HealthError, match="step 1: engine and trainer disagree"):
        _train(tmp_path, make_agent=scripted, health={"max_logprob_gap": 1e-3, "min_entropy": 0.0})
    assert (tmp_path / "checkpoints" / "step-000001").exists()
    report = _train(
        tmp_path, make_agent=scripted, resume=True, health={"max_logprob_gap": 100.0, "min_entropy": 0.0}
    )
    assert report.steps == 6


def test_a_cancelled_run_is_saved(tmp_path):
    async def main():
        config = parse_config(GUESS | {"steps": 1000})
        task = asyncio.create_task(
            atrain(config, out=tmp_path, progress=SilentProgress(), make_agent=scripted)
        )
        while not (tmp_path / "checkpoints" / "step-000002").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(main())
    assert _train(tmp_path, make_agent=scripted, resume=True, steps=8).steps >= 8


def test_a_policy_learns(tmp_path):
    # One number, always the same: what a warm start on random guesses finds in a quarter of its guesses.
    report = _train(
        tmp_path,
        steps=25,
        env={"id": "turngym/GuessNumber-v0", "kwargs": {"high": 3, "max_wrong": 1}, "task_ids": ["0-3:2"]},
        sft={"policy": "random", "episodes": 100, "steps": 60, "lr": 3e-3, "batch_tokens": 1024},
        rollout=GUESS["rollout"] | {"groups_per_step": 2, "group_size": 16},
    )
    rewards = [figures["reward"] for figures in _figures(tmp_path)]
    assert report.steps == 25
    assert sum(rewards[:3]) / 3 < 0.6
    assert sum(rewards[-3:]) / 3 > 0.9


# Every step is a line, so that a test can see where the run is.
_PROGRAM = """
import sys
from turngym.trainer.config import load_config
from turngym.trainer.loop import train
from turngym.trainer.progress import PlainProgress
progress = PlainProgress(sys.stderr, every_s=0.0)
train(load_config(sys.argv[1]), out=sys.argv[2], resume=True, progress=progress)
"""


def _start(config: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(config), str(out)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def _write_config(tmp_path: Path, **changes) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(to_toml(parse_config(GUESS | changes)))
    return path


@pytest.mark.slow
def test_law_13_after_kill_9_at_any_moment_a_resumed_run_ends_with_the_same_records(tmp_path):
    evaluation = {"split": "train", "tasks": 4, "samples": 2, "every": 2}
    sft = {"policy": "random", "episodes": 20, "steps": 5}
    config = _write_config(tmp_path, eval=evaluation, sft=sft)
    began = time.monotonic()
    whole = _start(config, tmp_path / "whole")
    _, said = whole.communicate(timeout=300)
    whole_s = time.monotonic() - began
    assert whole.returncode == 0, said
    signs = ("Playing", "warm start 3", "at step 0", "train 1/", "train 3/", "at step 4", "train 6/")
    for moment, sign in enumerate(signs):
        process = _start(config, tmp_path / "parts")
        assert process.stderr is not None
        for line in process.stderr:
            if sign in line:
                break
        time.sleep(0.02 * moment)
        process.kill()
        process.communicate()
    folders = [tmp_path / "parts", *_killed_at_random(config, tmp_path, whole_s)]
    for folder in folders:
        _finishes_like_the_whole(config, folder, tmp_path / "whole")


def _killed_at_random(config: Path, tmp_path: Path, whole_s: float) -> list[Path]:
    """Folders of runs that were killed and resumed until there were enough kills; a new one for each that ended."""
    rng = random.Random(0)
    kills, folders = int(os.environ.get("TURNGYM_TEST_KILLS", "3")), [tmp_path / "random-0"]
    while kills:
        process = _start(config, folders[-1])
        try:
            _, said = process.communicate(timeout=rng.uniform(0.2, 0.8) * whole_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills -= 1
        else:
            assert process.returncode == 0, said
            folders.append(tmp_path / f"random-{len(folders)}")
    return folders


def _finishes_like_the_whole(config: Path, parts: Path, undisturbed: Path) -> None:
    last = _start(config, parts)
    _, said = last.communicate(timeout=300)
    assert last.returncode == 0, said
    assert _records(parts) == _records(undisturbed)
    for resumed, whole in zip(_figures(parts), _figures(undisturbed), strict=True):
        assert resumed == pytest.approx(whole, rel=1e-5, abs=1e-5)


@pytest.mark.slow
def test_ctrl_c_ends_in_order_and_says_how_to_go_on(tmp_path):
    config = _write_config(tmp_path, steps=1000)
    process = _start(config, tmp_path / "run")
    assert process.stderr is not None
    for line in process.stderr:
        if "train 3/1000" in line:
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Run the same with --resume to go on" in said
    assert "Traceback" not in said
    (step,) = {int(word) for word in said.split("Stopped after step ")[1].split()[:1]}
    assert step >= 3
    assert (tmp_path / "run" / "checkpoints" / f"step-{step:06d}").exists()
    assert json.dumps(len(_figures(tmp_path / "run")))


def test_a_schedule_runs_over_the_steps_of_the_run(tmp_path, monkeypatch):
    seen = []

    def watched(learner, algorithm, *args, **kwargs):
        seen.append(algorithm.kl_coef)
        return learn(learner, algorithm, *args, **kwargs)

    monkeypatch.setattr(loop, "learn", watched)
    algorithm = {"preset": "grpo", "kl_coef": 0.2, "kl_in": "loss", "kl_kind": "k2", "kl_schedule": "linear"}
    _train(tmp_path / "run", make_agent=scripted, algorithm=algorithm, steps=4)
    assert seen == pytest.approx([0.2, 0.15, 0.1, 0.05])


def test_a_run_of_a_version_that_knew_fewer_settings_goes_on(tmp_path):
    _train(tmp_path, make_agent=scripted, steps=2)
    with RunStore(tmp_path) as store:
        config = store.get_meta("config")
        assert config["algorithm"].pop("kl_schedule") == "constant"
        store.set_meta("config", config)
    assert _train(tmp_path, make_agent=scripted, steps=3, resume=True).steps == 3
    with RunStore(tmp_path) as store:
        store.set_meta("config", config | {"algorithm": config["algorithm"] | {"kl_schedule": "linear"}})
    with pytest.raises(ConfigError, match="begun with another algorithm"):
        _train(tmp_path, make_agent=scripted, steps=4, resume=True)
