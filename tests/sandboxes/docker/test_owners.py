"""Who is dead, as far as anybody here can say."""

from __future__ import annotations

import os
import subprocess
import sys

from turngym.sandboxes.docker.owners import PID, RUN, is_dead, labels


def test_this_process_lives() -> None:
    found = labels("run")
    assert found[RUN] == "run"
    assert found[PID] == str(os.getpid())
    assert not is_dead(found)


def test_a_number_that_came_again_is_another_process() -> None:
    assert is_dead({**labels("run"), "turngym.owner.start": "1"})


def test_an_ended_process_is_dead_and_so_is_a_zombie() -> None:
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        start = _start(child.pid)
        found = {**labels("run"), PID: str(child.pid), "turngym.owner.start": start}
        assert not is_dead(found)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(found)
    assert is_dead(found)


def test_of_another_place_nobody_here_can_say_it() -> None:
    assert not is_dead({**labels("run"), "turngym.owner.start": "1", "turngym.owner.place": "elsewhere"})
    assert not is_dead({})


def _start(pid: int) -> str:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[19].decode()
