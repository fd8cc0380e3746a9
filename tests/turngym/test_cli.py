"""The command line as a person meets it: what it prints, and with which exit code it ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import turngym


def turngym_command(*argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from turngym.cli import main; main()", *argv],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env=None,
    )


def test_version():
    done = turngym_command("--version")
    assert (done.returncode, done.stdout) == (0, f"turngym {turngym.__version__}\n")


def test_the_command_is_there_as_a_module_too():
    for argv, shown in (
        ("--version", f"turngym {turngym.__version__}"),
        ("--help", "Usage: turngym [OPTIONS]"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "turngym", argv], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0
        assert shown in done.stdout


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["envs", "list", "--help"],
        ["envs", "check", "--help"],
        ["envs", "new", "--help"],
        ["eval", "--help"],
        ["play", "--help"],
        ["train", "--help"],
    ],
)
def test_help_shows_an_example(argv: list[str]):
    done = turngym_command(*argv)
    assert done.returncode == 0
    if len(argv) > 1:
        assert "Example" in done.stdout


def test_envs_list_as_json():
    done = turngym_command("envs", "list", "--json")
    ids = {entry["id"] for entry in json.loads(done.stdout)}
    assert {"turngym/Calculator-v0", "turngym/GuessNumber-v0"} <= ids


def test_envs_check_names_each_law():
    done = turngym_command("envs", "check", "turngym/GuessNumber-v0")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("✓") >= 10
    assert "✗" not in done.stdout


def test_an_unknown_environment_offers_the_nearest_and_is_misuse():
    for argv in (
        ["envs", "check", "turngym/Calculater-v0"],
        ["eval", "turngym/Calculater-v0", "--agent", "expert"],
    ):
        done = turngym_command(*argv)
        assert done.returncode == 2
        assert "turngym/Calculator-v0" in done.stderr
        assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback():
    done = turngym_command("envs", "check", "turngym/Nothing-v0", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_eval_prints_success_with_an_interval_and_stores_it(tmp_path: Path):
    out = tmp_path / "run"
    done = turngym_command(
        "eval", "turngym/Calculator-v0", "--agent", "expert", "-n", "20", "--out", str(out)
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"success +1\.000 \[0\.\d{3}, 1\.000\]", done.stdout)
    again = turngym_command("report", str(out), "--json")
    assert json.loads(again.stdout)["episodes"] == 20
    refused = turngym_command(
        "eval", "turngym/Calculator-v0", "--agent", "expert", "-n", "20", "--out", str(out)
    )
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    resumed = turngym_command(
        "eval", "turngym/Calculator-v0", "--agent", "expert", "-n", "20", "--out", str(out), "--resume"
    )
    assert resumed.returncode == 0, resumed.stderr


def test_report_of_a_training_run_shows_every_evaluation(tmp_path: Path):
    config = tmp_path / "guess.toml"
    config.write_text(
        'steps = 2\n[env]\nid = "turngym/GuessNumber-v0"\n[model]\npath = "tiny"\n[algorithm]\npreset = "grpo"\n'
        "[rollout]\ngroups_per_step = 2\ngroup_size = 2\nmax_turn_tokens = 4\nmax_turns = 5\n"
        '[eval]\nsplit = "train"\ntasks = 3\nevery = 1\n'
    )
    run = tmp_path / "a folder whose name is long enough that no line of eighty characters could hold it all"
    trained = turngym_command("train", str(config), "--out", str(run))
    assert trained.returncode == 0, trained.stderr
    assert f"'hf:{run / 'final'}' -n 500" in trained.stdout
    shown = turngym_command("report", str(run))
    assert re.findall(r"step (\d+) +success \d\.\d{3} \[", shown.stdout) == ["0", "1", "2"]
    listed = json.loads(turngym_command("report", str(run), "--json").stdout)
    assert [(one["step"], one["episodes"]) for one in listed] == [(0, 3), (1, 3), (2, 3)]
    elsewhere = turngym_command("report", str(tmp_path))
    assert elsewhere.returncode == 2
    assert "no folder of a run" in elsewhere.stderr


def test_what_an_environment_calls_itself_is_text_and_a_broken_one_is_shown():
    program = """
from turngym.cli import main
from turngym.envs import Env, register
@register("demo/Odd-v0")
class Odd(Env):
    "Does [bold]nothing[/x]."
    def __init__(self):
        raise RuntimeError("needs [/x] a licence")
main()
"""
    for argv, shown in (
        (["envs", "list"], "needs [/x] a licence"),
        (["envs", "check", "demo/Odd-v0"], "✗ it can be made it raised: RuntimeError: needs [/x] a licence"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *argv], capture_output=True, text=True, timeout=120
        )
        said = " ".join((done.stdout + done.stderr).split())
        assert "Traceback" not in said
        assert shown in said


def test_resuming_nothing_is_misuse(tmp_path: Path):
    config = tmp_path / "guess.toml"
    config.write_text('steps = 1\n[env]\nid = "turngym/GuessNumber-v0"\n[model]\npath = "tiny"\n')
    (tmp_path / "runs" / "guess-other-20260101-000000").mkdir(parents=True)
    (tmp_path / "runs" / "guess-other-20260101-000000" / "run.sqlite").touch()
    for argv in (
        ["train", str(config), "--resume"],
        ["train", str(config), "--resume", "--out", "typo"],
        ["eval", "turngym/Calculator-v0", "-a", "expert", "--resume"],
    ):
        done = turngym_command(*argv, cwd=tmp_path)
        assert done.returncode == 2, (argv, done.stderr)
        assert "resume" in done.stderr
    assert not (tmp_path / "typo").exists()


def test_the_reference_policy_knows_the_environment_s_arguments():
    played = turngym_command(
        "eval",
        "turngym/GuessNumber-v0",
        "-a",
        "random",
        "-n",
        "8",
        "--env",
        "high=0",
        "--split",
        "train",
        "--json",
    )
    assert json.loads(played.stdout)["success"]["mean"] == 1.0


def test_eval_with_an_unknown_agent_or_model_says_what_there_is(tmp_path: Path):
    unknown = turngym_command("eval", "turngym/Calculator-v0", "--agent", "exprt")
    assert unknown.returncode == 2
    assert "expert" in unknown.stderr
    missing = turngym_command("eval", "turngym/Calculator-v0", "--agent", f"hf:{tmp_path / 'nothing'}")
    assert missing.returncode == 2
    assert "nothing" in missing.stderr
    assert "Traceback" not in missing.stderr
