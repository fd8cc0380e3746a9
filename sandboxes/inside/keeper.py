"""A slot of the namespace backend: one process in namespaces of its own that makes one sandbox after the other.

The keeper is the supervisor of all of them, and the first process of a pid namespace in which no program ever is.
A sandbox is a mount namespace with an empty disk and an ipc namespace; its programs come from a zygote that knows
nothing of any request, and live in its pid namespace (see `zygote.py`). When the keeper ends, so does everything.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from turngym.sandboxes.inside import kernel, root
from turngym.sandboxes.inside.command import set_environment
from turngym.sandboxes.inside.serve import Supervisor
from turngym.sandboxes.inside.wire import Channel
from turngym.sandboxes.inside.zygote import ZygoteWall, open_space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM_ID = 1000
"""User and group id that programs see themselves as."""
_SIGKILL = 9
_ALL = (1 << 41) - 1
# What serving needs between the mounts: CHOWN, DAC_OVERRIDE, FOWNER, KILL.
_SERVING = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 5
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def keep(config: dict[str, Any], channel: Channel, cgroup_fds: list[int], oom_fd: int, peak_fd: int) -> None:
    """Serve a slot until the host closes the channel.

    Raises:
        BecomeProgram: in a descendant that is to be a Python program.
    """
    mapped = bool(config["mapped"])
    for fd in cgroup_fds:
        os.write(fd, b"0")
        os.close(fd)
    kernel.unshare(kernel.CLONE_NEWCGROUP)
    if mapped:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, _SIGKILL)
    kernel.drop_bounding_set()
    root.build(config, names())
    socket.sethostname("sandbox")
    if not config["network"]:
        _raise_loopback()
    channel.send({"ready": 1})
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # A program that wants these variables, as nearly all do, has nothing to change.
    set_environment({key: os.fsdecode(value) for key, value in config["env"].items()})
    wall = ZygoteWall(
        home=root.HOME,
        uid=PROGRAM_ID,
        gid=PROGRAM_ID,
        filter=config["filter"],
        soft_memory=not cgroup_fds,
        uid_is_own=True,
        oom_fd=oom_fd,
        peak_fd=peak_fd,
    )
    own = [open_space(name) for name in ("mnt", "ipc")]
    while True:
        request = channel.receive()
        if request is None:
            return
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        root.add_disk(request["disk_mib"], request["inodes"], wall.uid, wall.gid)
        wall.open()
        kernel.use_capabilities(_SERVING, _ALL)
        supervisor = Supervisor(channel, wall, warm=bool(request["warm"]))
        supervisor.serve()
        supervisor.close()
        kernel.use_capabilities(_ALL, _ALL)
        wall.close()
        for fd in own:
            kernel.setns(fd)
        try:
            channel.send({"closed": 1})
        except (BrokenPipeError, ConnectionResetError):
            return
        if not config["network"] and _loopback_was_used():
            kernel.unshare(kernel.CLONE_NEWNET)  # ports in TIME_WAIT and counters are traces too
            _raise_loopback()


def names() -> dict[str, str]:
    """The small files of a sandbox's /etc, by name."""
    return {
        "passwd": "root:x:0:0:root:/:/bin/false\n"
        f"user:x:{PROGRAM_ID}:{PROGRAM_ID}:user:{root.HOME}:/bin/sh\n",
        "group": f"root:x:0:\nuser:x:{PROGRAM_ID}:\n",
        "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    }


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def _loopback_was_used() -> bool:
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file:
            name, _, counters = line.partition(":")
            if name.strip() == "lo":
                return int(counters.split()[1]) > 0
    return True
