"""Messages with descriptors, over a local socket that keeps them apart (SOCK_SEQPACKET).

Source: the manual pages unix(7) and cmsg(3).
"""

from __future__ import annotations

import array
import socket

_MAX_MESSAGE = 1 << 20
_MAX_FDS = 16


def send(link: socket.socket, data: bytes, fds: list[int]) -> None:
    """Send a message, and copies of some descriptors."""
    link.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])


def receive(link: socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its descriptors; no bytes if the other end has hung up."""
    size = array.array("i").itemsize
    room = socket.CMSG_SPACE(_MAX_FDS * size)
    data, ancillary, _, _ = link.recvmsg(_MAX_MESSAGE, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(payload[: len(payload) - len(payload) % size])
    return data, list(fds)
