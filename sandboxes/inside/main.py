"""Where the supervisor starts: `launch FD` for the namespace backend, `supervise IN OUT` for every other."""

from __future__ import annotations

import _signal
import gc
import os
import sys

from turngym.sandboxes.inside.command import BecomeProgram
from turngym.sandboxes.inside.serve import Supervisor
from turngym.sandboxes.inside.walls import Wall
from turngym.sandboxes.inside.wire import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(arguments: list[str]) -> None:
    """Do what the arguments say, and in a child that was made to be a program, be that program."""
    occupy_low_descriptors()
    reset_signals()
    try:
        if arguments[0] == "launch":
            from turngym.sandboxes.inside.launcher import launch

            launch(int(arguments[1]), [name for name in arguments[2].split(",") if name], arguments[3:])
        else:
            supervise(int(arguments[1]), int(arguments[2]))
    except BecomeProgram as program:
        argv = program.arguments
    else:
        os._exit(
            0
        )  # nothing here has anything to flush, and children of a fork must not run exit functions twice
    run_python(argv)


def occupy_low_descriptors() -> None:
    """Descriptors 0 to 4 are places that programs get; nothing of ours may sit there."""
    while True:
        fd = os.open("/dev/null", os.O_RDWR)
        if fd > 4:
            os.close(fd)
            return


def reset_signals() -> None:
    """Forget what the host ignores or blocks (under `nohup`, in the background): programs would inherit it."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, [])
    for number in _signal.valid_signals() - {_signal.SIGPIPE, _signal.SIGXFSZ}:  # which every Python ignores
        if _signal.getsignal(number) == _signal.SIG_IGN:
            _signal.signal(number, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def supervise(in_fd: int, out_fd: int) -> None:
    """Serve one sandbox whose walls stand already; the host's first frame describes them.

    Its keys are those of `Wall`, `warm`, `preload` (whether to import what programs want) and `folders` (made if
    they are not there). Optional: `modules` (imported too), `disk` (an empty file system of root's, on which the
    folders are), `links` (pairs of path and target), `shut` (folders of root's that programs need not see),
    `kills` and `peaks` (files of control groups, of which the first that is there is read), `announce` (whether
    to say that all is ready).
    """
    from turngym.sandboxes.inside import kernel

    channel = Channel(in_fd, out_fd)
    config = channel.receive()
    if config is None:
        return
    if config["ends"] == b"children":
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # a program under the same user id may send it
    if config["preload"]:
        from turngym.sandboxes.inside.python import preload

        preload([name.decode() for name in config.get("modules", [])], [])
        gc.collect()
    home = config["home"].decode()
    wall = Wall(
        ends=config["ends"].decode(),
        home=home,
        uid=config["uid"],
        gid=config["gid"],
        filter=config["filter"],
        soft_memory=bool(config["soft_memory"]),
        uid_is_own=bool(config["uid_is_own"]),
        oom_fd=config.get("oom_fd", _first(config.get("kills", []))),
        peak_fd=config.get("peak_fd", _first(config.get("peaks", []))),
        files_as_user="disk" in config,
    )
    gc.freeze()  # what is here already is no garbage of a program's, and its pages stay shared
    _lay_out(config, wall)
    if config.get("announce", 1):
        channel.send({"ready": 1})
    Supervisor(channel, wall, warm=bool(config["warm"])).serve()
    wall.end_all()


def _lay_out(config: dict[str, Any], wall: Wall) -> None:
    """Make the folders of programs, which their user owns, in a place that it cannot rearrange."""
    if wall.files_as_user:
        os.setgroups([])
        os.chmod(config["disk"], 0o1777)
        for path in filter(os.path.isdir, config["folders"]):
            try:
                os.rmdir(path)
            except OSError:  # an engine has mounted something of its own there
                os.chmod(path, 0o1777)
    with wall.as_user():
        os.umask(0o022)
        for path in config["folders"]:
            os.makedirs(path, exist_ok=True)
    if wall.files_as_user:
        os.chmod(config["disk"], 0o755)
    for path in config.get("shut", []):
        try:
            os.chmod(path, 0o700)
        except FileNotFoundError:
            continue
    for path, target in config.get("links", []):
        try:
            os.rmdir(path)
        except OSError:  # an empty folder may be in its place, or what serves as well
            pass
        try:
            os.symlink(target, path)
        except FileExistsError:
            continue


def _first(paths: list[bytes]) -> int:
    """Descriptor of the first file that can be read; -1 if there is none."""
    for path in paths:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
    return -1


def run_python(argv: list[str]) -> None:
    """Be an interpreter that runs a program (or, without arguments, a session), to the exit code. Never returns."""
    from turngym.sandboxes.inside.ending import finish, report
    from turngym.sandboxes.inside.python import become
    from turngym.sandboxes.inside.session import interpret

    code = 0
    try:
        if argv:
            become(argv)
        else:
            interpret()
    except BaseException as error:  # noqa: BLE001 (what an interpreter does with what nobody caught)
        code = report(error)
    finish(code)


if __name__ == "__main__":
    main(sys.argv[1:])
