"""What environments do to each other, to pickle, and to the machine."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from turngym.envs import user
from turngym.envs.builtin.calculator import Calculator
from turngym.envs.checks import isolation

from .good import Good, Shelf, failures

pytestmark = pytest.mark.usefixtures("clean_registry")

BESIDE = "environments side by side do not disturb each other"
PICKLE = "a pickled environment goes on alike, or refuses"
LEFT = "closing leaves nothing behind"


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch):
    monkeypatch.setattr(isolation, "_SETTLE_S", 0.1)


class Awaits(Good):
    """Two awaited at once share a variable across the wait."""

    last: list = [None]

    async def astep(self, action):
        self.last[0] = action.text
        await asyncio.sleep(0.001)
        self.turn += 1
        over = self.turn == 3
        info = {"metrics": {"success": float(action.text == self.task.target)}} if over else {}
        return (user(f"you said {self.last[0]}"),), 0.0, over, False, info


class LeavesFiles(Good):
    def reset(self, *, seed=None, options=None):
        tempfile.NamedTemporaryFile(delete=False).close()
        return super().reset(seed=seed, options=options)


class LeavesOpenFiles(Good):
    opened: list = []

    def reset(self, *, seed=None, options=None):
        self.opened.append(os.open(os.devnull, os.O_RDONLY))
        return super().reset(seed=seed, options=options)


class LeavesProcesses(Good):
    started: list = []

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        # A grandchild, whose parent is still there.
        code = "import subprocess as s, sys; s.run([sys.executable, '-c', 'input()'])"
        self.started.append(subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE))


class HasAService(Good):
    """One process for all, started at the first use."""

    service = None

    def reset(self, *, seed=None, options=None):
        if HasAService.service is None:
            HasAService.service = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        return super().reset(seed=seed, options=options)


class Refuses(Good):
    def __reduce__(self):
        raise TypeError("it holds a connection: make another from its id")


class RefusesMutely(Good):
    def __reduce__(self):
        raise TypeError


class Breaks(Good):
    def __reduce__(self):
        raise KeyError("oops")


def _end(*processes):
    for process in processes:
        process.communicate(b"\n", timeout=20)


def test_variables_shared_across_a_wait_are_found():
    assert failures(Awaits)[BESIDE].endswith("awaited at once")


def test_temporary_files_and_open_files_are_found():
    assert failures(LeavesFiles)[LEFT].endswith("there are 8 more temporary files")
    assert failures(LeavesOpenFiles)[LEFT].endswith("there are 8 more open files")
    for descriptor in LeavesOpenFiles.opened:
        os.close(descriptor)


def test_processes_are_found_and_services_are_not():
    try:
        assert "more processes" in failures(LeavesProcesses, episodes=1)[LEFT]
    finally:
        _end(*LeavesProcesses.started)
    try:
        assert LEFT not in failures(HasAService)
    finally:
        _end(HasAService.service)


def test_the_temporary_folder_is_as_before():
    before = tempfile.gettempdir(), os.environ.get("TMPDIR")
    failures(LeavesFiles)
    assert (tempfile.gettempdir(), os.environ.get("TMPDIR")) == before
    assert not list(Path(before[0]).glob("turngym-check-*"))


def test_pickle_may_be_refused_with_a_reason():
    assert PICKLE not in failures(Refuses)
    assert failures(RefusesMutely)[PICKLE].endswith("by TypeError without a reason")
    assert failures(Breaks)[PICKLE] == "KeyError: 'oops'"


def test_tools_of_a_class_are_found_again_there():
    env = Calculator()
    env.reset(seed=0)
    twin = pickle.loads(pickle.dumps(env))
    assert twin.toolbox is env.toolbox
    assert twin.rewards is env.rewards
    assert twin.history == env.history
    with pytest.raises(TypeError, match="the tool 'calculator' holds code and is not pickled"):
        pickle.dumps(Calculator(only_tools=["calculator"]))


def test_a_reward_of_its_own_is_not_pickled():
    def extra(answer) -> float:
        return 0.0

    with pytest.raises(TypeError, match="the reward 'correct' holds code"):
        pickle.dumps(Calculator(rewards=[extra]))


def test_good_ones_pass():
    assert failures(Shelf) == {}
