"""The inside of the worker processes: a template that has loaded everything once, and forks a worker on request.

A worker answers one job after the other on its socket. It has a limit of memory; a job has a limit of processor time,
which the kernel enforces by ending the worker. A worker ends with its template, and the template when its owner hangs
up, be that by closing the socket or by dying.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

Target = Callable[[Any, Callable[[str], None]], Any]
"""Does a job: takes it, and a function that says which stage it is in; returns JSON data."""

SCRIPT: Final = __file__
"""What the template runs."""
_PR_SET_PDEATHSIG: Final = 1
MOST_BYTES: Final = 1 << 20
"""Of one message."""
_BUSY_SHARE: Final = 0.5
"""A worker that has used that share of its memory leaves after its job."""


def main(control_fd: int, target: str, memory_mib: int) -> None:
    """Serve the owner of a socket: fork workers, end them, say how they ended.

    Args:
        control_fd: of the socket.
        target: "module:function", which does the jobs.
        memory_mib: address space that a worker may add to what the template has.
    """
    module, _, name = target.partition(":")
    function: Target = getattr(importlib.import_module(module), name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the owner's business
    gc.collect()
    gc.freeze()
    libc = ctypes.CDLL(None)
    control = socket.socket(fileno=control_fd)
    control.send(b'{"ready": true}')
    template = os.getpid()
    while True:
        data, fds, _, _ = socket.recv_fds(control, MOST_BYTES, 1)
        if not data:
            return
        request = json.loads(data)
        if "end" in request:
            control.send(json.dumps({"status": _ended(request["end"])}).encode())
            continue
        try:
            pid = os.fork()
        except OSError as error:
            control.send(json.dumps({"problem": str(error)}).encode())
            os.close(fds[0])
            continue
        if pid == 0:
            control.close()
            try:
                libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == template:
                    _work(socket.socket(fileno=fds[0]), function, memory_mib)
            finally:
                os._exit(0)
        os.close(fds[0])
        control.send(json.dumps({"pid": pid}).encode())


def _ended(pid: int) -> int:
    """How a worker ended, as `waitpid` says it; it is made to, if it has not."""
    os.kill(pid, signal.SIGKILL)  # it is a child that nobody has waited for, so the number is its own
    return os.waitpid(pid, 0)[1]


def _work(link: socket.socket, function: Target, memory_mib: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used_kib = _address_space_kib()
    limit = (used_kib << 10) + (memory_mib << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def say(stage: str) -> None:
        link.send(json.dumps({"stage": stage}).encode())

    while data := link.recv(MOST_BYTES):
        request = json.loads(data)
        signal.setitimer(signal.ITIMER_PROF, request["cpu_s"])
        try:
            answer: dict[str, Any] = {"value": function(request["job"], say)}
        except MemoryError:
            answer = {"failed": "memory", "why": "no memory is left"}
        except RecursionError as error:
            answer = {"failed": "crash", "why": str(error)}
        except Exception as error:  # noqa: BLE001 (the owner decides what it means)
            answer = {"failed": "error", "why": f"{type(error).__name__}: {error}"}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        grown = _address_space_kib() - used_kib
        answer["leaves"] = answer.get("failed") == "memory" or grown > _BUSY_SHARE * (memory_mib << 10)
        link.send(json.dumps(answer).encode())
        if answer["leaves"]:
            return


def _address_space_kib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * (resource.getpagesize() >> 10)


if (
    __name__ == "__main__"
):  # run by its path: importing it as a part of the package would import all that is above it
    sys.path[:] = json.loads(sys.argv[4])
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
