"""A slot of the namespace backend: one process in namespaces of its own that makes one sandbox after the other.

The keeper has imported what programs need and never runs any: for each sandbox it forks an init into a fresh pid,
mount and ipc namespace, lends it the channel to the host, and waits for its death, with which the kernel has ended
everything in it. Nothing of a request passes through the keeper's memory but the size of the disk.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct

from turngym.sandboxes.inside import kernel, root
from turngym.sandboxes.inside.serve import Supervisor
from turngym.sandboxes.inside.walls import Wall
from turngym.sandboxes.inside.wire import Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROGRAM_ID = 1000
"""User and group id that programs see themselves as."""
_SIGKILL = 9
_FRESH = kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC
# What init needs after its mounts: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID.
_INIT_CAPABILITIES = 1 << 0 | 1 << 1 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7
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
    uid = PROGRAM_ID
    root.build(config, names())
    socket.sethostname("sandbox")
    if not config["network"]:
        _raise_loopback()
    channel.send({"ready": 1})
    wall = Wall(
        ends="all",
        home=root.HOME,
        uid=uid,
        gid=uid,
        filter=config["filter"],
        soft_memory=not cgroup_fds,
        uid_is_own=True,
        oom_fd=oom_fd,
        peak_fd=peak_fd,
    )
    while True:
        request = channel.receive()
        if request is None:
            return
        kills = wall.oom_kills()
        pid = kernel.clone(_FRESH)
        if pid == 0:
            _init(request, channel, wall)
        _, status = os.waitpid(pid, 0)
        channel.send({"closed": 1, "lost": int(status != 0), "oom": int(wall.oom_kills() > kills)})
        if not config["network"] and _loopback_was_used():
            kernel.unshare(kernel.CLONE_NEWNET)  # ports in TIME_WAIT and counters are traces too
            _raise_loopback()


def _init(request: dict[str, Any], channel: Channel, wall: Wall) -> None:
    """First process of one sandbox. Never returns."""
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, _SIGKILL)
        root.enter(request["disk_mib"], request["inodes"], wall.uid, wall.gid)
        kernel.keep_capabilities(_INIT_CAPABILITIES)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        Supervisor(channel, wall, warm=bool(request["warm"])).serve()
    except Exception as error:  # noqa: BLE001 (a fork must never return into the keeper)
        os.write(2, (f"turngym: sandbox init: {error!r}\n").encode("utf-8", "replace"))
        os._exit(1)
    os._exit(0)


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
