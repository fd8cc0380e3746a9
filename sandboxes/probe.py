"""Finds out what a backend really enforces by running small programs in it that try to get out."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final, Protocol

from turngym.sandboxes.capabilities import CAPABILITIES, Capabilities, Capability
from turngym.sandboxes.errors import SandboxError, SandboxUnavailable
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.protocols import Sandbox

_LIMITS: Final = Limits(wall_s=10, memory_mib=64, processes=16, disk_mib=8, inodes=512)

_FILES: Final = """
import os
def shows(path):
    try: return os.listdir(path) if os.path.isdir(path) else open(path, "rb").read()
    except OSError: return None
seen = [path for path in ("/etc/shadow", "/root", "/home", "/boot", "/proc/1/root/etc/shadow") if shows(path)]
def open_for_writing(path):
    try: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)); return True
    except OSError: return False
seen += [p for p in ("/usr/zz", "/etc/zz", "/zz", "/proc/sys/kernel/core_pattern") if open_for_writing(p)]
print("held" if not seen else seen)
"""
_NETWORK: Final = """
import socket, sys
out = [line.split()[0] for line in open("/proc/net/route").readlines()[1:] if not line.startswith("lo")]
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=2)
    out.append("a server of the host")
except OSError: pass
print("held" if not out else "reachable: %s" % out)
"""
_LOOPBACK: Final = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), timeout=2)
print("held")
"""
_PROCESSES: Final = """
import os
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (os.getpid(), os.getppid(), 1)]
print("held" if not others else "sees %d processes" % len(others))
"""
_CREDENTIALS: Final = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
wrong = [k for k in ("CapEff", "CapPrm", "CapInh", "CapAmb") if int(status[k], 16)]
if status.get("NoNewPrivs", "1").strip() != "1": wrong.append("new privileges")
if os.getuid() == 0: wrong.append("root")
print("held" if not wrong else wrong)
"""
_SYSCALLS: Final = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
wrong = []
if libc.unshare(0x10000000) == 0: wrong.append("unshare")
if libc.ptrace(0, 0, 0, 0) == 0: wrong.append("ptrace")
import socket
try: socket.socket(40, socket.SOCK_STREAM); wrong.append("vsock")
except OSError: pass
print("held" if not wrong else wrong)
"""
_MEMORY: Final = """
import os
pids = []
for _ in range(4):  # each one within the limit, all together far above it
    pid = os.fork()
    if pid == 0:
        block = bytearray(40 << 20)
        block[::4096] = b"x" * len(block[::4096])
        import time; time.sleep(1.5)
        os._exit(0)
    pids.append(pid)
ended = [os.waitpid(pid, 0)[1] for pid in pids]
print("held" if any(ended) else "160 MiB in a sandbox of 64")
"""
_COUNT: Final = """
import os, time
made = 0
try:
    for _ in range(40):
        if os.fork() == 0:
            time.sleep(3)
            os._exit(0)
        made += 1
except OSError:
    print("held")
else:
    print("made", made)
"""
_DISK: Final = """
import errno, os
held = []
block = b"x" * (1 << 20)
try:
    with open("big", "wb") as file:
        for _ in range(16): file.write(block); file.flush()
except OSError as error: held.append(error.errno == errno.ENOSPC)
if os.path.exists("big"): os.unlink("big")
try:
    for number in range(200000): open("f%d" % number, "w").close()
except OSError: held.append(True)
print("held" if held == [True, True] else held)
"""

_CHECKS: Final[dict[Capability, str]] = {
    "files": _FILES,
    "network": _NETWORK,
    "processes": _PROCESSES,
    "credentials": _CREDENTIALS,
    "syscalls": _SYSCALLS,
    "hard_memory": _MEMORY,
    "hard_processes": _COUNT,
    "hard_disk": _DISK,
    "loopback": _LOOPBACK,
}


_MAY_END: Final = frozenset({"hard_memory", "hard_disk"})
"""Where the kernel's killing of the program is the limit at work; files of a memory disk are memory."""


class Probed(Protocol):
    """What can be probed: a backend that can say why something may be missing."""

    @property
    def name(self) -> str:
        """What it is called."""

    async def create(self, limits: Limits = ...) -> Sandbox:
        """A fresh sandbox."""

    def remedies(self) -> Mapping[Capability, str]:
        """Why something that it could enforce may be missing here."""


async def probe(backend: Probed, known: frozenset[Capability] = frozenset()) -> Capabilities:
    """What holds when it is tried, each in a sandbox of its own.

    Args:
        backend: what to try.
        known: what needs no trying, because the backend's construction decides it (own_uid, kernel).

    Raises:
        SandboxUnavailable: it makes no sandbox at all.
    """
    enforced = set(known)
    found: dict[Capability, str] = {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        for name, code in _CHECKS.items():
            async with await backend.create(_LIMITS) as sandbox:
                try:
                    result = await sandbox.exec(["python3", "-c", code, port])
                except SandboxUnavailable:
                    raise
                except SandboxError as error:
                    found[name] = f"the probe broke the sandbox: {error}"
                    continue
            if result.stdout.strip() == b"held" or (name in _MAY_END and result.status == "oom"):
                enforced.add(name)
            else:
                said = (result.stdout_text + result.stderr_text).strip().splitlines()
                found[name] = f"the probe saw: {said[-1][:200] if said else result.status}"
    async with await backend.create(_LIMITS) as sandbox:
        try:
            session = await sandbox.session()
            await session.run("x = 1")
            if (await session.run("x + 1")).value == "2":
                enforced.add("sessions")
        except SandboxError as error:
            found["sessions"] = str(error)
    remedies: dict[Capability, str] = {}
    reasons = backend.remedies()
    for name in CAPABILITIES:
        if name not in enforced:
            parts = [text for text in (reasons.get(name), found.get(name)) if text]
            if parts:
                remedies[name] = "; ".join(parts)
    return Capabilities(backend.name, frozenset(enforced), remedies)
