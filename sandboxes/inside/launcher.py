"""Starts keepers, and programs such as bubblewrap: the one process of ours that still lives in the host's namespaces.

It imports the standard library once, so that a new slot is a fork of something small. It keeps no secret: the
host started it with an empty environment, and what it is told are numbers, paths and descriptors. When the host
is gone it ends what it started, and removes the control groups.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import socket
import time

from turngym.sandboxes.inside import ending, keeper, kernel, passing, python
from turngym.sandboxes.inside.command import BecomeProgram
from turngym.sandboxes.inside.wire import Channel, decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_END_S = 3.0
_SIGKILL = 9
_APART = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)


def launch(control_fd: int, preload: list[str], paths: list[str]) -> None:
    """Start a keeper for each message until the host closes the control socket.

    Raises:
        BecomeProgram: in a descendant that is to be a Python program.
    """
    control = socket.socket(fileno=control_fd)
    python.preload(preload, paths)
    ending.flush()  # every program ends with that module: it is imported here, so that no fork has to
    gc.collect()
    gc.freeze()
    control.send(encode({"ready": 1}))
    _answer_requests(control)


def _answer_requests(control: socket.socket) -> None:
    """Start what each message asks for, until the host closes the socket; then end all of it."""
    children: dict[int, list[bytes]] = {}
    groups: set[bytes] = set()  # of children that have ended, to be removed
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while True:
        ready = poll.poll(1000)
        groups |= _reap(children)
        groups = {group for group in groups if not _remove(group)}
        if not ready:
            continue
        data, fds = passing.receive(control)
        if not data:
            _end(children, groups)
            return
        try:
            request = decode(data)
            serial = request["serial"]
            pid = _STARTS[request["verb"]](request, fds, control)
            children[pid] = request["groups"]
            answer: dict[str, Any] = {"pid": pid, "serial": serial}
        except OSError as error:
            answer = {"errno": error.errno or 0, "message": str(error), "serial": serial}
        # Not in a `finally`: a child that becomes a program comes this way, and its descriptors are others.
        for fd in fds:
            os.close(fd)
        control.send(encode(answer))


def _start_keeper(config: dict[str, Any], fds: list[int], control: socket.socket) -> int:
    """One keeper in its own namespaces. Its descriptors: the channel, the groups to join, oom and peak."""
    wait_fd, go_fd = os.pipe()
    pid = kernel.clone(_APART | (0 if config["network"] else kernel.CLONE_NEWNET))
    if pid == 0:
        _keep(config, fds, wait_fd, go_fd, control)
    os.close(wait_fd)
    try:
        _map_ids(pid, config)
        os.write(go_fd, b"g")
    except OSError:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(go_fd)
    return pid


def _keep(config: dict[str, Any], fds: list[int], wait_fd: int, go_fd: int, control: socket.socket) -> None:
    """In the child: become the keeper. Never returns, but for programs."""
    try:
        control.close()
        os.close(go_fd)
        if os.read(wait_fd, 1) != b"g":
            os._exit(1)
        os.close(wait_fd)
        channel, rest = Channel(fds[0], fds[0]), fds[1:]
        joins = rest[: config["joins"]]
        oom_fd, peak_fd = (*rest[config["joins"] :], -1, -1)[:2]
        keeper.keep(config, channel, joins, oom_fd, peak_fd)
    except BecomeProgram:
        raise
    except Exception as error:  # noqa: BLE001 (a fork must never return into the launcher)
        os.write(2, (f"turngym: keeper: {error!r}\n").encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)


def _start_program(request: dict[str, Any], fds: list[int], control: socket.socket) -> int:
    """A program. Its descriptors are those that it gets; `places` are the numbers that it knows them by."""
    del control
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    # First out of the way of all places.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 64) for fd in (null, null, *fds)]
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, fd, place)
            for fd, place in zip(high, [0, 1, *request["places"]], strict=True)
        ]
        # Unlike a fork it copies nothing of this process.
        return os.posix_spawn(request["argv"][0], request["argv"], {}, file_actions=actions, setsid=True)
    finally:
        for fd in (null, *high):
            os.close(fd)


def _start_branch(request: dict[str, Any], fds: list[int], control: socket.socket) -> int:
    """A launcher for one slot, in its groups and under its user. Its descriptors: groups to join, control socket.

    Moving a process into a group can take as long as starting Python: a program that is started from within is in
    it already.
    """
    pid = kernel.clone()
    if pid:
        return pid
    try:
        control.close()
        os.setsid()
        own = fcntl.fcntl(fds[request["joins"]], fcntl.F_DUPFD, 64)
        for fd in fds[: request["joins"]]:
            os.write(fd, b"0")
        _close_all_but(own)
        _change_user(request)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, _SIGKILL)
        _answer_requests(socket.socket(fileno=own))
    except Exception as error:  # noqa: BLE001 (a fork must never return into the launcher)
        os.write(2, (f"turngym: branch: {error!r}\n").encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)


_STARTS = {b"keep": _start_keeper, b"run": _start_program, b"branch": _start_branch}


def _close_all_but(fd: int) -> None:
    """Close every descriptor but the standard ones and one more."""
    os.closerange(3, fd)
    os.closerange(fd + 1, 1 << 20)


def _change_user(request: dict[str, Any]) -> None:
    """Become the slot's user, where this process may choose."""
    if request["mapped"]:
        os.setgroups([])
        os.setresgid(*[request["gids"][0]] * 3)
        os.setresuid(*[request["uids"][0]] * 3)


def _map_ids(pid: int, config: dict[str, Any]) -> None:
    if config["mapped"]:
        for kind, ids in (("uid", config["uids"]), ("gid", config["gids"])):
            text = f"0 {ids[0]} 1\n{keeper.PROGRAM_ID} {ids[1]} 1\n"
            _write(f"/proc/{pid}/{kind}_map", text)
        return
    _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", f"{keeper.PROGRAM_ID} {os.getuid()} 1\n")
    _write(f"/proc/{pid}/gid_map", f"{keeper.PROGRAM_ID} {os.getgid()} 1\n")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _reap(children: dict[int, list[bytes]]) -> set[bytes]:
    """Collect children that have ended; their control groups."""
    groups: set[bytes] = set()
    while children:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid == 0:
            break
        groups.update(children.pop(pid, []))
    return groups


def _end(children: dict[int, list[bytes]], groups: set[bytes]) -> None:
    for pid in children:
        os.kill(pid, 9)
    for pid, more in children.items():
        os.waitpid(pid, 0)
        groups.update(more)
    deadline = time.monotonic() + _END_S
    while groups and time.monotonic() < deadline:
        # What a keeper had started dies with it, but a moment later.
        groups = {group for group in groups if not _remove(group)}
        time.sleep(0.005)


def _remove(group: bytes) -> bool:
    """True if a group is gone; one that has an owner (see `cgroups.py`), or somebody in it, is left alone."""
    try:
        fd = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
