"""Whatever is asked for that cannot be done is answered with one line that says what to do, and with exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

from turngym.cli import evaluation
from turngym.envs import Env, ListTasks, Task, register, user
from turngym.evaluation.errors import StoreError
from turngym.evaluation.store import RunStore

CALCULATOR, GUESS = "turngym/Calculator-v0", "turngym/GuessNumber-v0"


class Tagged(Env):
    """Tasks with tags."""

    def __init__(self, *, split: str | None = None) -> None:
        tasks = [Task(id=f"t{n}", prompt=(user(str(n)),), tags=(f"tag{n % 2}",)) for n in range(4)]
        super().__init__(tasks=ListTasks(test=tasks, none=[]), split=split)

    def step(self, action: object) -> tuple[tuple[()], float, bool, bool, dict[str, object]]:
        return (), 0.0, True, False, {}


class Unwilling(Env):
    """Cannot be made."""

    def __init__(self, *, split: str | None = None) -> None:
        raise RuntimeError("no licence\nhere")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    made = {"t/Tagged-v0": Tagged, "t/Unwilling-v0": Unwilling}
    for id, kind in made.items():
        register(id, kind)
    yield
    for id in made:
        gymnasium.registry.pop(id)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            [CALCULATOR, "--tag", "nosuch"],
            "no task in split 'test' with a tag among nosuch; its tasks have no tags",
        ),
        (["t/Tagged-v0", "--tag", "nosuch"], "with a tag among nosuch; there are tag0, tag1"),
        (["t/Tagged-v0", "--split", "none"], "there is no task in split 'none'"),
        (["t/Tagged-v0", "--split", "nosuch"], "no split 'nosuch'"),
        (["t/Tagged-v0", "--task", "nosuch"], "nosuch"),
        (["t/Tagged-v0", "--task", "t1", "--task", "t1"], "a task id is given twice"),
        ([GUESS, "--env", "nosuch=1"], "takes no argument 'nosuch'; it takes low, high, max_wrong, split"),
        ([GUESS, "--env", "max_wrng=1"], "did you mean max_wrong?"),
        ([GUESS, "--env", "max_wrong=abc"], "could not be made with --env max_wrong='abc': TypeError:"),
        (
            [GUESS, "--env", "high=-1"],
            "could not be made with --env high=-1: ValueError: expected low ≤ high",
        ),
        ([GUESS, "--env", "id=1"], "takes no argument 'id'"),
        ([GUESS, "--env", "name=1"], "takes no argument 'name'"),
        ([GUESS, "--env", "split=train"], "the split has an option of its own, --split"),
        ([GUESS, "--env", "=1"], "write it as key=value"),
        ([GUESS, "--env", "high"], "write it as key=value"),
        ([GUESS, "--env", "high=1\nlow=0"], "more than one value"),
        ([GUESS, "--env", "high=" + "[" * 5000 + "]" * 5000], "nested too deeply"),
        (["nosuch_module:Env-v0"], "the module 'nosuch_module' cannot be imported"),
        (
            ["t/Unwilling-v0"],
            "the environment t/Unwilling-v0 could not be made: RuntimeError: no licence here",
        ),
        ([CALCULATOR, "--agent", "hf:~nosuchuser"], "~nosuchuser is nobody's home folder"),
        ([CALCULATOR, "--resume"], "name it with --out"),
    ],
)
def test_an_evaluation_that_cannot_be(ask, argv, words):
    answer = ask("eval", *([] if "--agent" in argv else ["--agent", "null"]), *argv)
    assert answer.code == 2, answer.err
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1
    assert answer.out == ""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "c.toml"
    path.write_text(
        'steps = 1\nenv = {id = "turngym/GuessNumber-v0"}\nmodel = {path = "tiny"}\n[algorithm]\npreset="grpo"\n'
    )
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("optim.learning_rat=1", "unknown key optim.learning_rat"),
        ("rollout.group_size=1", "compares the episodes of a group"),
        ("env.id='turngym/Calculato-v0'", "did you mean turngym/Calculator-v0"),
        ("model.path='no/such/folder'", "model.path = 'no/such/folder': the folder does not exist"),
        ("algorithm.preset='grop'", "did you mean grpo?"),
        ("steps=true", "steps: Input should be a valid integer"),
        ("optim.betas=[0.9, 1.0]", "optim.betas.1: Input should be less than 1"),
        ("seed=18446744073709551616", "seed: Input should be less than"),
        ("seed=-1", "seed: Input should be greater than or equal to 0"),
        ("algorithm.preset=['grpo']", "no preset ['grpo']"),
        ("model.device=gpu", "model.device = 'gpu', but this machine has cpu"),
        ("model.path=~nosuchuser", "~nosuchuser is nobody's home folder"),
        ("env.id=nosuch_module:Env-v0", "the module 'nosuch_module' cannot be imported"),
        ("env.id=t/Unwilling-v0", "could not be made"),
        ("env.kwargs.nosuch=1", "takes no argument 'nosuch'"),
        ("env.kwargs.max_wrong=abc", "could not be made"),
        ("env.task_tags=['nosuch']", "nosuch"),
        ("env.task_ids=['nosuch']", "nosuch"),
        ("steps=1\nseed=2", "more than one value"),
        ("=1", "write it as key.path=value"),
        ("env.kwargs.x=" + "[" * 5000 + "]" * 5000, "nested too deeply"),
        ("tracking.wandb=true", "write the name of the project"),
    ],
)
def test_a_training_run_that_cannot_be(ask, config, tmp_path, change, words):
    answer = ask("train", str(config), "--set", change, "--out", str(tmp_path / "run"))
    assert answer.code == 2, answer.err
    *_, line = answer.err.splitlines()
    assert line.startswith("error: ")
    assert words in line
    assert not (tmp_path / "run").exists()


def test_a_folder_is_no_configuration(ask, tmp_path):
    answer = ask("train", str(tmp_path))
    assert (answer.code, answer.err) == (2, f"error: {tmp_path} is a folder: name the TOML file itself\n")


@pytest.mark.parametrize("command", ["eval", "train"])
@pytest.mark.parametrize("place", ["file", "file/below/it"])
def test_a_run_cannot_be_where_a_file_is(ask, config, tmp_path, command, place):
    (tmp_path / "file").write_text("mine")
    argv = ["eval", GUESS, "--agent", "expert"] if command == "eval" else ["train", str(config)]
    answer = ask(*argv, "--out", str(tmp_path / place))
    assert answer.code == 2
    assert (
        answer.err
        == f"error: --out {tmp_path / place}: {tmp_path / 'file'} is a file, not a folder; choose another\n"
    )
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("command", ["eval", "train"])
def test_a_run_cannot_be_where_nobody_may_write(ask, config, tmp_path, monkeypatch, command):
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != tmp_path)  # root may write anywhere
    argv = ["eval", GUESS, "--agent", "expert"] if command == "eval" else ["train", str(config)]
    answer = ask(*argv, "--out", str(tmp_path / "a" / "b"))
    assert answer.code == 2
    assert f"nobody may write in {tmp_path}" in answer.err


def test_a_folder_that_cannot_be_made_or_belongs_to_somebody_else(ask, tmp_path):
    wrong = ["eval", GUESS, "--agent", "expert", "-n", "2", "--out"]
    answer = ask(*wrong, "/proc/nosuch/run")  # nobody, not even root, can make a folder there
    assert answer.code == 2, answer.err
    (tmp_path / "run.sqlite").write_text("something else, and long enough to be looked at" * 50)
    answer = ask(*wrong, str(tmp_path))
    assert answer.code == 2, answer.err
    assert "choose another path" in answer.err
    with RunStore(tmp_path / "locked" / "run.sqlite"):
        answer = ask(*wrong, str(tmp_path / "locked"))
    assert answer.code == 2, answer.err
    assert "is writing this run" in answer.err
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text("{}")
    answer = ask("report", str(tmp_path / "report"))
    assert answer.code == 2, answer.err
    assert "no report of turngym's" in answer.err


def test_a_disk_that_fails_while_it_runs_is_no_misuse(ask, monkeypatch, tmp_path):
    def fail(*_: object, **__: object) -> None:
        raise StoreError("cannot use it") from sqlite_error

    sqlite_error = ValueError("disk I/O error")
    monkeypatch.setattr(RunStore, "add_episodes", fail)
    answer = ask("eval", GUESS, "--agent", "expert", "--out", str(tmp_path / "run"))
    assert (answer.code, answer.err) == (1, "error: cannot use it\n")


def test_an_error_that_nobody_foresaw_is_a_line_too(ask, monkeypatch):
    monkeypatch.setattr(evaluation, "make_agent", lambda *_, **__: {}["nothing"])
    answer = ask("eval", GUESS, "--agent", "expert")
    assert answer.code == 1
    assert answer.err == (
        "error: KeyError: 'nothing'\nThis error was not foreseen: --debug shows where it comes from.\n"
    )


def test_what_is_not_played_gets_no_room(ask, monkeypatch):
    rooms = []

    def note(*argv, **options):
        rooms.append(options.get("slots") or options.get("concurrency"))
        return {"make_agent": make_agent, "aevaluate": aevaluate}[argv[0]](*argv[1:], **options)

    make_agent, aevaluate = evaluation.make_agent, evaluation.aevaluate
    monkeypatch.setattr(evaluation, "make_agent", lambda *a, **o: note("make_agent", *a, **o))
    monkeypatch.setattr(evaluation, "aevaluate", lambda *a, **o: note("aevaluate", *a, **o))
    answer = ask("eval", "t/Tagged-v0", "-a", "null", "-k", "2", "--concurrency", "1000000")
    assert answer.code == 0, answer.err
    assert rooms == [8, 8]
