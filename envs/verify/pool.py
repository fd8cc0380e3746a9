"""A bounded number of worker processes that can be ended at any moment, for what may not end by itself.

    workers = Workers("package.module:function")
    value = await workers.run({"any": "JSON data"})      # from any event loop

The limits of a job count from when a worker takes it, not from when it is queued: processor time, which the kernel
enforces, and wall time. A worker that passes one is replaced, which costs a few milliseconds: workers are forked from a
template that has loaded everything. They end with `close`, with the process, and when the process is killed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import weakref
from dataclasses import dataclass
from typing import Any, Final, Literal

from turngym.envs.errors import InfrastructureError
from turngym.envs.verify.worker import MOST_BYTES, SCRIPT
from turngym.sandboxes import async_bridge

How = Literal["cost", "memory", "crash", "error", "killed", "stuck"]
_START_S: Final = 60.0
_END_S: Final = 5.0
_FAULTS: Final = frozenset((signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL))


class JobEnded(InfrastructureError):
    """A job was ended before it had a result.

    Args:
        how: "cost": it used up its processor time. "memory", "crash" (a fault, or too deep a recursion), "error" (any
            other exception), "killed" (from outside), "stuck" (no result within the wall time).
        stage: the last one that the job announced.
        why: for people.
    """

    def __init__(self, how: How, stage: str, why: str) -> None:
        super().__init__(f"{how} in stage {stage!r}: {why}")
        self.how = how
        self.stage = stage


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Of one job."""

    cpu_s: float = 5.0
    """Processor time."""
    wall_s: float = 60.0
    """Wall time; a machine that does other work meanwhile must not use it up before the processor time."""
    memory_mib: int = 1024
    """Address space beyond what the template has."""


class _Worker:
    """The owner's side of one worker."""

    def __init__(self, pid: int, link: socket.socket) -> None:
        self.pid = pid
        self.link = link


class Workers:
    """Runs jobs in worker processes. Nothing is started before the first.

    Args:
        target: "module:function", called with the job and a function that takes the name of a stage.
        most: the most workers at once; default: one for each processor, and four at most.
        limits: of each job.
    """

    def __init__(self, target: str, *, most: int | None = None, limits: JobLimits | None = None) -> None:
        self.target = target
        self.most = most or min(4, os.cpu_count() or 1)
        self.limits = limits or JobLimits()
        self._room: asyncio.Semaphore | None = None
        self._turn: asyncio.Lock | None = None
        self._idle: list[_Worker] = []
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._ending: set[asyncio.Future[int]] = set()
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def run(self, job: Any) -> Any:
        """The result of a job, which is JSON data as the result is.

        Raises:
            JobEnded: it has none.
            InfrastructureError: no worker can be started.
        """
        return await async_bridge.hop(self._run(job))

    def close(self) -> None:
        """End all workers. Safe to call twice, and from any thread; the next job starts new ones."""
        async_bridge.run(self._close())

    def abandon(self) -> None:
        """In a forked child: let go of what belongs to the parent, which goes on with it."""
        for one in list(self._sockets):
            os.close(one.detach())
        if self._process is not None:
            self._process.returncode = 0  # not ours to wait for

    def hang_up(self) -> None:
        """End all workers at the process's end, when no event loop may be running any more."""
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            _wait(self._process)

    async def _run(self, job: Any) -> Any:
        if self._room is None:
            self._room, self._turn = asyncio.Semaphore(self.most), asyncio.Lock()
        async with self._room:
            worker = self._idle.pop() if self._idle else await self._taken()
            is_reusable = False
            try:
                answer, stage = await self._asked(worker, job)
                if answer is None:
                    raise await self._cause(worker, stage)
                is_reusable = not answer["leaves"]
            finally:
                if is_reusable:
                    self._idle.append(worker)
                else:
                    await asyncio.shield(asyncio.ensure_future(self._end(worker)))
            if "failed" in answer:
                raise JobEnded(answer["failed"], stage, answer["why"])
            return answer["value"]

    async def _asked(self, worker: _Worker, job: Any) -> tuple[dict[str, Any] | None, str]:
        """A worker's answer, None if it ended without one; and the last stage."""
        loop = asyncio.get_running_loop()
        stage = ""
        try:
            async with asyncio.timeout(self.limits.wall_s):
                request = json.dumps({"job": job, "cpu_s": self.limits.cpu_s}).encode()
                await loop.sock_sendall(worker.link, request)
                while data := await loop.sock_recv(worker.link, MOST_BYTES):
                    answer: dict[str, Any] = json.loads(data)
                    if "stage" not in answer:
                        return answer, stage
                    stage = answer["stage"]
        except TimeoutError:
            raise JobEnded("stuck", stage, f"no result within {self.limits.wall_s:g} s") from None
        except OSError:
            pass  # it ended before it could read the job
        return None, stage

    async def _cause(self, worker: _Worker, stage: str) -> JobEnded:
        """Why a worker ended by itself."""
        status = await self._end(worker)
        if not os.WIFSIGNALED(status):
            return JobEnded(
                "crash", stage, f"the worker left with exit code {os.waitstatus_to_exitcode(status)}"
            )
        number = os.WTERMSIG(status)
        if number == signal.SIGPROF:
            return JobEnded("cost", stage, f"more than {self.limits.cpu_s:g} s of processor time")
        how: How = "crash" if number in _FAULTS else "killed"
        return JobEnded(how, stage, f"the worker was ended by signal {number}")

    async def _taken(self) -> _Worker:
        """A new worker; one that arrives when nobody waits for it any more is ended."""
        forking = asyncio.ensure_future(self._forked())
        try:
            return await asyncio.shield(forking)
        except asyncio.CancelledError:
            forking.add_done_callback(self._unwanted)
            raise

    def _unwanted(self, forking: asyncio.Future[_Worker]) -> None:
        if not forking.cancelled() and forking.exception() is None:
            self._ending.add(ending := asyncio.ensure_future(self._end(forking.result())))
            ending.add_done_callback(self._ending.discard)

    async def _forked(self) -> _Worker:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._sockets.add(ours)
        try:
            answer = await self._told({"fork": True}, theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Worker(answer["pid"], ours)

    async def _end(self, worker: _Worker) -> int:
        """End a worker, and learn how it ended if it already had."""
        worker.link.close()
        if worker.pid == 0:
            return 0
        pid, worker.pid = worker.pid, 0
        try:
            status: int = (await self._told({"end": pid}, None))["status"]
        except InfrastructureError:
            return signal.SIGKILL  # it ended with its template
        return status

    async def _told(self, request: dict[str, Any], link: socket.socket | None) -> dict[str, Any]:
        """Ask the template, which is started if it does not run.

        Raises:
            InfrastructureError: it cannot be started, or cannot do it.
        """
        asking = asyncio.ensure_future(self._exchange(request, link.dup() if link is not None else None))
        # What was asked is answered, even if nobody waits for it any more: else the next would get the answer.
        asking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(asking)

    async def _exchange(self, request: dict[str, Any], link: socket.socket | None) -> dict[str, Any]:
        assert self._turn is not None
        loop = asyncio.get_running_loop()
        try:
            async with self._turn:
                if self._control is None:
                    if "end" in request:
                        raise InfrastructureError("the template has ended")
                    await self._start()
                assert self._control is not None
                fds = [link.fileno()] if link is not None else []
                try:
                    socket.send_fds(self._control, [json.dumps(request).encode()], fds)
                    data = await loop.sock_recv(self._control, MOST_BYTES)
                except OSError as error:
                    self._lost()
                    raise InfrastructureError(f"the template of the workers has ended: {error}") from error
                if not data:
                    self._lost()
                    raise InfrastructureError("the template of the workers has ended")
        finally:
            if link is not None:
                link.close()
        answer: dict[str, Any] = json.loads(data)
        if "problem" in answer:
            raise InfrastructureError(f"no worker can be started: {answer['problem']}")
        return answer

    async def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self._sockets.add(ours)
        arguments = [str(theirs.fileno()), self.target, str(self.limits.memory_mib), json.dumps(sys.path)]
        with theirs, open(os.memfd_create("turngym-workers"), "w+b") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", SCRIPT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
            self._control = ours
            theirs.close()
            try:
                async with asyncio.timeout(_START_S):
                    ready = await asyncio.get_running_loop().sock_recv(ours, MOST_BYTES)
            except BaseException:
                self._lost()
                raise
            if not ready:
                self._lost()
                log.seek(0)
                said = log.read().decode("utf-8", "replace").strip().split("\n")
                raise InfrastructureError(f"the workers cannot be started: {said[-1]}")

    def _lost(self) -> None:
        """The template is gone, and its workers with it."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            _wait(self._process)
            self._process = None
        for worker in self._idle:
            worker.link.close()
        self._idle.clear()

    async def _close(self) -> None:
        if self._turn is None:
            return
        async with self._turn:
            self._lost()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
