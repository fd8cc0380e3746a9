"""How a command ends when it is asked to: in order, resumable, and without a word more than it needs."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path

import pytest

from turngym.evaluation.errors import NotAStore
from turngym.evaluation.store import STORE_NAME, RunStore

SLOW = """
import asyncio
from turngym.cli import main
from turngym.envs import Env, questions, register

@register("t/Slow-v0")
class Slow(Env):
    tasks = questions(train={"a": "a"}, test={str(n): "x" for n in range(40)})

    async def astep(self, action):
        await asyncio.sleep(0.1)
        return (), 0.0, True, False, {"metrics": {"success": 0.0}}

main()
"""


def start(*argv: str, **options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SLOW, *argv]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload, no-any-return]


def evaluate(folder: Path) -> list[str]:
    return ["eval", "t/Slow-v0", "-a", "null", "--concurrency", "2", "--out", str(folder)]


def wait_until_it_plays(folder: Path, phase: str = "eval/test") -> None:
    for _ in range(600):
        if (folder / STORE_NAME).exists():
            with (
                contextlib.suppress(NotAStore),
                RunStore(folder, read_only=True) as store,
            ):  # it may be half made
                if store.done(phase, 0 if phase.startswith("eval") else 1):
                    return
        time.sleep(0.1)
    raise AssertionError("nothing was played within a minute")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_an_evaluation_in_order_and_it_can_be_resumed(tmp_path: Path, number: signal.Signals):
    with start(*evaluate(tmp_path)) as process:
        wait_until_it_plays(tmp_path)
        process.send_signal(number)
        if number == signal.SIGHUP:
            process.send_signal(number)  # the terminal and its shell each send one
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said == f"Interrupted; {tmp_path} keeps what was played: add --resume to go on.\n"
    assert not list(tmp_path.glob("*-wal"))  # closed in order
    with start(*evaluate(tmp_path), "--resume", "--json") as process:
        printed, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert json.loads(printed)["episodes"] == 40


def test_nohup_still_means_that_a_closed_terminal_is_nothing(tmp_path: Path):
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with start(*evaluate(tmp_path), preexec_fn=ignore) as process:
        wait_until_it_plays(tmp_path)
        process.send_signal(signal.SIGHUP)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said


def test_a_job_of_a_script_that_ignores_ctrl_c_can_still_be_ended(tmp_path: Path):
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    with start(*evaluate(tmp_path), preexec_fn=ignore) as process:
        wait_until_it_plays(tmp_path)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said


def look_at(terminal: int, is_open: threading.Event) -> None:
    """Read what a terminal shows, or it would be full."""
    os.set_blocking(terminal, False)
    while is_open.is_set():
        with contextlib.suppress(BlockingIOError):
            os.read(terminal, 65536)
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_training_ends_in_order_when_its_terminal_is_closed(tmp_path: Path, term: str):
    config = tmp_path / "guess.toml"
    config.write_text(
        'steps = 100000\n[env]\nid = "turngym/GuessNumber-v0"\n[model]\npath = "tiny"\n[algorithm]\npreset = "grpo"\n'
        "[rollout]\ngroups_per_step = 2\ngroup_size = 2\nmax_turn_tokens = 4\n[eval]\ntasks = 0\n"
        "[tracking]\ntensorboard = false\n[checkpoint]\nevery = 100000\n"
    )
    ours, theirs = os.openpty()

    def take_terminal() -> None:
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "turngym", "train", str(config), "--out", str(tmp_path / "run")],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=take_terminal,
        env={**os.environ, "TERM": term},
    )
    os.close(theirs)
    is_open = threading.Event()
    is_open.set()
    window = threading.Thread(target=look_at, args=(ours, is_open))
    window.start()
    try:
        wait_until_it_plays(tmp_path / "run", "train")
        time.sleep(0.5)
        is_open.clear()
        window.join()
        os.close(ours)  # as a window is closed: SIGHUP, and nobody to write to any more
        assert process.wait(timeout=60) in (130, 120)  # 120 where the last words could not be flushed
    finally:
        is_open.clear()
        process.kill()
        process.wait()
    assert list((tmp_path / "run" / "checkpoints").glob("step-*"))
    with RunStore(tmp_path / "run", read_only=True) as store:
        assert store.phases()


def test_letters_that_the_terminal_does_not_know_are_no_error():
    done = subprocess.run(
        [sys.executable, "-m", "turngym", "envs", "check", "turngym/GuessNumber-v0"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert "\\u2713" in done.stdout


@pytest.mark.parametrize("variable", ["TERM=dumb", "NO_COLOR=1"])
def test_no_code_where_none_is_wanted(variable: str):
    name, _, value = variable.partition("=")
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "turngym", "envs", "list"],
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", name: value},
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # how a pseudo-terminal ends
    finally:
        os.close(ours)
    assert process.wait(timeout=60) == 0
    assert b"turngym/Calculator-v0" in shown
    assert b"\x1b" not in shown
