"""One episode in the terminal."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from .conftest import Ask

CALCULATOR, GUESS = "turngym/Calculator-v0", "turngym/GuessNumber-v0"


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch):
    """What the person will type."""

    def prepare(*lines: str) -> None:
        left = list(lines)

        def read(prompt: str) -> str:
            print(prompt, end="")
            if not left:
                raise EOFError
            print(left[0])
            return left.pop(0)

        monkeypatch.setattr("builtins.input", read)

    return prepare


def test_a_person_plays(ask: Ask, types):
    types("3", "seven", "7")
    done = ask("play", GUESS, "--task", "0-15:7")
    assert done.code == 0
    assert "turngym/GuessNumber-v0  task 0-15:7 · split train · seed 0" in done.out
    assert "  0, 1, 2, 3, " in done.out
    assert done.out.count("higher") == 1
    assert "not a number from 0 to 15" in done.out
    assert done.out.endswith(
        "     user  correct\n\ncompleted (terminated) · 3 turns · reward 0.8\n"
        "  rewards: guessed 0.8\n  metrics: success 1, guesses 3\n"
    )


def test_tools_are_shown_and_called(ask: Ask, types):
    types('calculator(1, "+"', 'calculator(1, "+", 2); calculator(a=true)', '"""', "not", "it", '"""')
    done = ask("play", CALCULATOR, "--seed", "3")
    assert 'calculator(a: integer, op: "+" | "-" | "*", b: integer)    Work out a op b.' in done.out
    assert "this is no call: '(' was never closed" in done.err
    assert "calculator  3\n" in done.out
    assert "calculator  Error: argument 'a'" in done.out
    assert "2 turns · reward 0\n  rewards: correct 0\n  metrics: success 0, calls 2, errors 1\n" in done.out


def test_giving_up_is_a_clean_end(ask: Ask, types):
    types("3")
    done = ask("play", GUESS)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("\ngiven up · 1 turn · reward 0\n")


def test_watching_the_expert(ask: Ask):
    done = ask(
        "play", CALCULATOR, "--agent", "expert", "--split", "test", "--task", "test-1", "--env", "least=2"
    )
    assert done.code == 0
    assert "task test-1 · split test" in done.out
    assert re.search(r"assistant  → calculator\(", done.out)
    assert "reward 1\n  rewards: correct 1\n  metrics: success 1" in done.out


def test_the_same_seed_is_the_same_episode(ask: Ask):
    first = ask("play", CALCULATOR, "-a", "random", "--seed", "5").out
    assert first == ask("play", CALCULATOR, "-a", "random", "--seed", "5").out
    assert first != ask("play", CALCULATOR, "-a", "random", "--seed", "6").out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["turngym/Calculater-v0"], "turngym/Calculator-v0"),
        ([GUESS, "--task", "nosuch"], "nosuch"),
        ([GUESS, "--task", "16-31:20"], "is not in split 'train' but in 'test'"),
        ([GUESS, "--split", "nosuch"], "no split 'nosuch'"),
        ([GUESS, "--agent", "nobody"], "no agent 'nobody'"),
        ([GUESS, "--env", "nosuch=1"], "takes no argument 'nosuch'"),
    ],
)
def test_misuse_is_one_line(ask: Ask, argv: list[str], words: str):
    done = ask("play", *argv)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def in_terminal(keys: list[bytes | signal.Signals]) -> tuple[int, str]:
    """Exit code and screen of a game in a real terminal; each key is sent when the prompt is there."""
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "turngym", "play", GUESS, "--task", "0-15:7"]
    with subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True, env=os.environ
    ) as process:
        os.close(terminal)
        watch = threading.Timer(60, process.kill)  # one that does not end is a failed test, not a hanging one
        watch.start()
        screen = b""
        for key in keys:
            count = screen.count(b"> ")
            screen = _read_until(controller, screen, lambda text, seen=count: text.count(b"> ") > seen)
            if isinstance(key, signal.Signals):
                time.sleep(0.2)  # it waits in `input` by then
                process.send_signal(key)
            else:
                os.write(controller, key)
        screen = _read_until(controller, screen, lambda _: False)
        code = process.wait(timeout=90)
        watch.cancel()
    os.close(controller)
    return code, screen.decode()


def _read_until(controller: int, screen: bytes, done) -> bytes:
    while not done(screen):
        try:
            piece = os.read(controller, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        screen += piece
    return screen


def test_in_a_real_terminal_ctrl_d_gives_up():
    code, screen = in_terminal([b"3\n", b"\x04"])
    assert code == 0
    assert "given up · 1 turn · reward 0" in screen
    assert "Traceback" not in screen


def test_in_a_real_terminal_ctrl_c_ends_at_once():
    code, screen = in_terminal([b"3\n", signal.SIGINT])
    assert code == 130
    assert "Interrupted." in screen
    assert "Traceback" not in screen
