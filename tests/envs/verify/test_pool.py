"""Workers: what ends a job, whose fault it is said to be, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest

from turngym.envs.verify.pool import JobEnded, JobLimits, Workers

TARGET = """
import ctypes, os, signal, sys, time

def do(job, say):
    say("begun")
    kind = job["do"]
    if kind == "spin":
        while True: pass
    if kind == "power":  # one call of C code, which no handler of Python's could interrupt
        return len(str(9 ** 9 ** 9))
    if kind == "sleep":
        time.sleep(job["s"])
    if kind == "memory":
        return len(bytearray(3 << 30))
    if kind == "fault":
        ctypes.string_at(0)
    if kind == "recurse":
        return do_again(0)
    if kind == "raise":
        raise KeyError("oops")
    if kind == "exit":
        os._exit(3)
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "keep":
        kept.append(bytearray(200 << 20))
    return [kind, os.getpid()]

kept = []

def do_again(n):
    return do_again(n + 1)
"""


@pytest.fixture
def target(tmp_path, monkeypatch):
    (tmp_path / "jobs_for_tests.py").write_text(TARGET, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "jobs_for_tests:do"


@pytest.fixture
def workers(target):
    made = Workers(target, most=2, limits=JobLimits(cpu_s=0.3, wall_s=20.0, memory_mib=1024))
    yield made
    made.close()


def gone(pids) -> bool:
    for _ in range(200):
        if not any(psutil.pid_exists(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


async def test_jobs_are_done_by_as_many_processes_as_allowed(workers):
    done = await asyncio.gather(*(workers.run({"do": "echo"}) for _ in range(40)))
    assert {kind for kind, _ in done} == {"echo"}
    pids = {pid for _, pid in done}
    assert 1 <= len(pids) <= 2
    assert os.getpid() not in pids


@pytest.mark.parametrize(
    ("what", "how"),
    [
        ("spin", "cost"), ("power", "cost"), ("memory", "memory"), ("fault", "crash"), ("recurse", "crash"),
        ("raise", "error"), ("exit", "crash"), ("kill", "killed"),
    ],
)  # fmt: skip
async def test_a_job_that_fails_says_how_and_where_and_the_next_one_is_done(workers, what, how):
    await workers.run({"do": "echo"})
    with pytest.raises(JobEnded) as failure:
        await workers.run({"do": what})
    assert (failure.value.how, failure.value.stage) == (how, "begun")
    assert (await workers.run({"do": "echo"}))[0] == "echo"


async def test_wall_time_ends_what_uses_no_processor_time(target):
    workers = Workers(target, most=1, limits=JobLimits(cpu_s=5.0, wall_s=0.3))
    (_, pid) = await workers.run({"do": "echo"})
    with pytest.raises(JobEnded) as failure:
        await workers.run({"do": "sleep", "s": 60})
    assert failure.value.how == "stuck"
    assert gone([pid])
    workers.close()


async def test_limits_count_from_when_work_starts(target):
    workers = Workers(target, most=1, limits=JobLimits(cpu_s=5.0, wall_s=1.5))
    jobs = [workers.run({"do": "sleep", "s": 0.5}) for _ in range(5)]  # 2.5 s one after the other
    assert len(await asyncio.gather(*jobs)) == 5
    workers.close()


async def test_a_worker_that_has_grown_leaves_after_its_job(target):
    workers = Workers(target, most=1, limits=JobLimits(memory_mib=300))
    (_, first) = await workers.run({"do": "echo"})
    assert (await workers.run({"do": "keep"}))[1] == first
    assert (await workers.run({"do": "echo"}))[1] != first
    assert gone([first])
    workers.close()


async def test_a_cancelled_job_gives_its_answer_to_nobody_else(workers):
    for _ in range(5):
        job = asyncio.ensure_future(workers.run({"do": "sleep", "s": 0.2}))
        await asyncio.sleep(0.1)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
    assert {(await workers.run({"do": "echo"}))[0] for _ in range(4)} == {"echo"}


def test_any_thread_and_any_loop_may_ask(workers):
    found = []

    def ask():
        found.append(asyncio.run(workers.run({"do": "echo"}))[0])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["echo"] * 8


def test_closing_ends_every_process_and_the_next_job_starts_new_ones(workers):
    pid = asyncio.run(workers.run({"do": "echo"}))[1]
    template = workers._process.pid
    workers.close()
    workers.close()
    assert gone([pid, template])
    assert asyncio.run(workers.run({"do": "echo"}))[0] == "echo"


def test_a_template_that_was_killed_is_started_again(workers):
    pid = asyncio.run(workers.run({"do": "echo"}))[1]
    os.kill(workers._process.pid, signal.SIGKILL)
    assert gone([pid])  # the kernel ends the workers with it
    with pytest.raises(JobEnded, match="killed"):
        asyncio.run(workers.run({"do": "echo"}))
    assert asyncio.run(workers.run({"do": "echo"}))[0] == "echo"


def test_a_module_that_cannot_be_loaded_is_named():
    workers = Workers("no_such_module:do")
    with pytest.raises(RuntimeError, match="no_such_module"):
        asyncio.run(workers.run({}))
    workers.close()


OWNER = """
import asyncio, json, os, sys
sys.path[:] = json.loads(sys.argv[1])
from turngym.envs.verify.pool import Workers
workers = Workers("jobs_for_tests:do", most=2)
async def both():
    return await asyncio.gather(*(workers.run({"do": "sleep", "s": 0.2}) for _ in range(2)))
pids = [pid for _, pid in asyncio.run(both())]
"""


def owner(code: str) -> tuple[subprocess.Popen, list[int]]:
    """A process that has workers, does what `code` says, and the numbers that it prints first."""
    import json

    process = subprocess.Popen(
        [sys.executable, "-c", OWNER + textwrap.dedent(code), json.dumps(sys.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, [int(word) for word in process.stdout.readline().split()]


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_nothing_is_left_of_an_owner_that_ends_or_is_killed_at_work(target, end):
    process, pids = owner(
        """
        import threading, time
        print(*pids, workers._process.pid, flush=True)
        threading.Thread(target=lambda: asyncio.run(workers.run({"do": "spin"})), daemon=True).start()
        time.sleep(0.3)
        sys.stdin.readline() if sys.argv[2:] else time.sleep(60)
        """
        if end == "kill"
        else """
        print(*pids, workers._process.pid, flush=True)
        """
    )
    assert len(pids) == 3
    if end == "kill":
        time.sleep(0.6)
        process.kill()
    process.wait(30)
    assert gone(pids)
    process.stdout.close()
    process.stderr.close()


def test_a_forked_child_has_workers_of_its_own(target):
    process, pids = owner(
        """
        print(*pids, flush=True)
        child = os.fork()
        if child == 0:
            workers.abandon()
            again = Workers("jobs_for_tests:do")
            own = asyncio.run(again.run({"do": "echo"}))[1]
            again.close()
            os._exit(0 if own not in pids else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert asyncio.run(workers.run({"do": "echo"}))[1] in pids
        workers.close()
        print("well", flush=True)
        """
    )
    assert process.stdout.readline() == "well\n", process.stderr.read()
    process.wait(30)
    assert gone(pids)
    process.stdout.close()
    process.stderr.close()
