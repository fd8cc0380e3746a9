"""What a checker outside of a sandbox needs: canaries to plant, listeners to open, and facts about the host.

Everything here looks at the host from the host; nothing believes what a program says about itself.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from turngym.sandboxes.limits import MIB, Limits
from turngym.sandboxes.results import ExecResult

CANARY_PLACES = (
    "/root/canary.txt",
    "/home/canary/canary.txt",
    "/etc/canary.txt",
    "/run/canary.txt",
    "/srv/canary.txt",
    "/opt/canary.txt",
    "/tmp/canary.txt",
    "/var/tmp/canary.txt",
)
MARKER_FOLDERS = ("/", "/root", "/home", "/home/canary", "/etc", "/run", "/srv", "/opt", "/tmp", "/var/tmp")
"""Host folders that a stray write of a file interface would land in."""
DIGESTED = ("/etc/shadow", "/etc/gshadow")
TCP_PORT, UDP_PORT = 47111, 47112
SOCKET_PATHS = ("/tmp/canary-net.sock", "/run/canary-net.sock", "/var/tmp/canary-net.sock")


def new_canary() -> str:
    return f"CANARY-{secrets.token_hex(16)}"


ENV_CANARY = new_canary()
"""In the environment of this process, before any backend starts."""
MEMORY_CANARY = new_canary()
MEMORY_CANARY_BYTES = new_canary().encode()


def limits_of(fields: dict[str, Any], **more: Any) -> Limits:
    """The limits of an entry in the words of `attacks/manifest.json`, as ours."""
    output = fields["output_bytes"]
    names = ("wall_s", "cpu_s", "memory_mib", "processes", "disk_mib", "network")
    mapped = {name: fields[name] for name in names}
    return Limits(**{**mapped, "stdout_bytes": output, "stderr_bytes": output, **more})


_ABANDONED_S = 900.0


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep other test processes of this machine from the same fixed places and ports."""
    path = Path(tempfile.gettempdir()) / f"turngym-tests-{os.getuid()}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class Canaries:
    """Secrets of the host in files, in an open descriptor, in memory and in the environment."""

    def __init__(self) -> None:
        self.token = new_canary()
        self._planted: list[Path] = []
        self._made: list[Path] = []
        self._fd = -1

    def __enter__(self) -> Canaries:
        deadline = time.monotonic() + 30
        while not self._planted:  # another checker may have its own there, for a moment
            self._plant()
            assert self._planted or time.monotonic() < deadline, "not one canary could be planted"
            time.sleep(0 if self._planted else 0.2)
        self._fd = os.open(self._planted[0], os.O_RDONLY)
        os.set_inheritable(self._fd, True)  # a careless harness would hand it on
        return self

    def _plant(self) -> None:
        for place in CANARY_PLACES:
            path = Path(place)
            with contextlib.suppress(OSError):
                if not path.parent.exists():
                    path.parent.mkdir(mode=0o755)
                    self._made.append(path.parent)
                if path.is_file() and time.time() - path.stat().st_mtime > _ABANDONED_S:
                    path.unlink()  # its checker was killed: no test takes that long
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
                self._planted.append(path)
                os.write(fd, self.token.encode())
                os.close(fd)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        for path in self._planted:
            path.unlink(missing_ok=True)
        for path in self._made:
            with contextlib.suppress(OSError):
                path.rmdir()

    def assert_unread(self, *answers: bytes) -> None:
        """No canary, and no digest of a secret file, stands in what came out of the sandbox."""
        secrets_here = [self.token.encode(), ENV_CANARY.encode(), MEMORY_CANARY.encode(), MEMORY_CANARY_BYTES]
        for answer in answers:
            assert not any(secret in answer for secret in secrets_here), answer[-3000:]
            assert b"LEAK" not in answer, answer[-3000:]
            for path in DIGESTED:
                with contextlib.suppress(OSError):
                    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
                    assert digest.encode() not in answer, f"{path} was read"

    def assert_unwritten(self) -> None:
        """Every planted file is as it was, and no file of the attackers' name stands on the host."""
        for path in self._planted:
            assert path.read_text() == self.token, f"{path} was changed"
        for folder in MARKER_FOLDERS:
            with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
                strays = [name for name in os.listdir(folder) if "zz_attack_marker" in name]
                assert not strays, f"written to {folder} on the host: {strays}"


class Listeners:
    """Sockets of the host that nothing in a sandbox may reach."""

    def __init__(self) -> None:
        self._open: list[tuple[str, socket.socket]] = []
        self._paths: list[str] = []

    def __enter__(self) -> Listeners:
        for family, kind, address in (
            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", TCP_PORT)),
            (socket.AF_INET6, socket.SOCK_STREAM, ("::1", TCP_PORT)),
            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", UDP_PORT)),
            (socket.AF_UNIX, socket.SOCK_STREAM, "\0canary-net"),
            (socket.AF_UNIX, socket.SOCK_DGRAM, "\0canary-net-dgram"),
            *((socket.AF_UNIX, socket.SOCK_STREAM, path) for path in SOCKET_PATHS),
        ):
            deadline = time.monotonic() + 10
            while not self._listen(family, kind, address) and time.monotonic() < deadline:
                time.sleep(0.2)  # another checker has it, for a moment
        assert len(self._open) >= 4
        return self

    def __exit__(self, *_: object) -> None:
        for _, listener in self._open:
            listener.close()
        for path in self._paths:
            Path(path).unlink(missing_ok=True)

    def assert_untouched(self) -> None:
        ready, _, _ = select.select([listener for _, listener in self._open], [], [], 0.05)
        reached = [name for name, listener in self._open if listener in ready]
        assert not reached, f"reached from within: {reached}"

    def _listen(self, family: int, kind: int, address: Any) -> bool:
        """False if the address is taken."""
        listener = socket.socket(family, kind)
        try:
            listener.bind(address)
            if kind == socket.SOCK_STREAM:
                listener.listen(5)
        except OSError as error:  # a host without IPv6, or a folder that is not ours
            listener.close()
            return error.errno != errno.EADDRINUSE
        self._open.append((str(address), listener))
        if isinstance(address, str) and address.startswith("/"):
            self._paths.append(address)
            os.chmod(address, 0o666)
        return True


Process = tuple[int, int]
"""Number and start time, which together name one process."""


further_roots: Callable[[], Iterable[int]] = tuple
"""Where else than below this process a backend's processes hang; `countable` sets it for a test."""


def container_roots() -> list[int]:
    """First processes of the containers that this process has made."""
    from turngym.sandboxes.docker.config import DockerConfig
    from turngym.sandboxes.docker.engine import Engine
    from turngym.sandboxes.docker.owners import PID

    def look(client: Any) -> list[int]:
        found = client.containers(filters={"label": f"{PID}={os.getpid()}"})
        pids = []
        for container in found:
            with contextlib.suppress(Exception):  # removed meanwhile
                pids.append(client.inspect_container(container["Id"])["State"]["Pid"])
        return [pid for pid in pids if pid]

    engine = Engine(DockerConfig().engine, 30.0)
    try:
        return engine.ask(look)
    finally:
        engine.close()


def descendants(top: int | None = None) -> dict[Process, str]:
    """Every process below one of ours, zombies included, with its name and state.

    Without a `top`, those of `further_roots` and they themselves as well.
    """
    roots = set() if top is not None else set(further_roots())
    top = os.getpid() if top is None else top
    parents: dict[int, tuple[int, Process, str]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                head, _, rest = Path("/proc", name, "stat").read_bytes().rpartition(b")")
                fields = rest.split()
                label = f"{head.partition(b'(')[2].decode('utf-8', 'replace')} ({fields[0].decode()})"
                parents[int(name)] = (int(fields[1]), (int(name), int(fields[19])), label)
    found: dict[Process, str] = {}
    found.update({parents[pid][1]: parents[pid][2] for pid in roots if pid in parents})
    grew = {top, *roots}
    while grew:
        grew = {pid for pid, (parent, _, _) in parents.items() if parent in grew}
        found.update({parents[pid][1]: parents[pid][2] for pid in grew})
    return found


def mounts() -> int:
    """Mounts that this process sees, but for those of a container engine that may run here too."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return len([line for line in lines if "docker" not in line and "containers" not in line])


def with_ids(first: int, count: int) -> list[int]:
    """Processes of the host, wherever they hang, that run under a range of user ids."""
    pids = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                uid = os.stat(f"/proc/{name}").st_uid
                status = Path("/proc", name, "status").read_text().split("Uid:")[1].split()
                if any(first <= value < first + count for value in (uid, int(status[0]), int(status[1]))):
                    pids.append(int(name))
    return pids


def assert_no_survivors(before: Iterable[Process], within_s: float = 1.0) -> None:
    """Nothing below this process is there that was not there before."""
    known = set(before)
    deadline = time.monotonic() + within_s
    while True:
        new = {process: label for process, label in descendants().items() if process not in known}
        if not new:
            return
        assert time.monotonic() < deadline, f"still there: {new}"
        time.sleep(0.02)


class Usage:
    """Samples how much memory and disk of the host are in use, from a thread of its own."""

    def __init__(self) -> None:
        self._before = self._now()
        self._most = (0.0, 0.0)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Usage:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def growth_mib(self) -> float:
        """The most that memory or disk grew by."""
        self._look()
        return max(self._most)

    def _sample(self) -> None:
        while not self._end.wait(0.2):
            self._look()

    def _look(self) -> None:
        now = self._now()
        self._most = tuple(  # type: ignore[assignment]
            max(most, value - before)
            for most, value, before in zip(self._most, now, self._before, strict=True)
        )

    @staticmethod
    def _now() -> tuple[float, float]:
        fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        memory = int(fields["MemTotal"].split()[0]) - int(fields["MemAvailable"].split()[0])
        disk = os.statvfs(tempfile.gettempdir())
        return memory / 1024, (disk.f_blocks - disk.f_bfree) * disk.f_frsize / MIB


def both(result: ExecResult) -> bytes:
    """Everything that a program wrote."""
    return result.stdout + b"\n" + result.stderr


def assert_withstood(result: ExecResult, *evidence: str, tolerated: tuple[str, ...] = ()) -> None:
    """The attempt was made, and nothing says that it got through, but for what is tolerated."""
    said = both(result).decode("utf-8", "replace")
    for text in evidence or ("ATTEMPT",):
        assert text in said, f"never attempted ({text}): {result.status} {said[-2000:]}"
    assert not breaches(said, tolerated)


def breaches(said: str, tolerated: tuple[str, ...] = ()) -> list[str]:
    """Lines that say that something got through."""
    passed = tuple(f"BREACH {name}" for name in tolerated)
    broken = [line for line in said.splitlines() if line.startswith(("BREACH", "LEAK"))]
    return [line for line in broken if not (passed and line.startswith(passed))]


@contextlib.contextmanager
def within(seconds: float) -> Iterator[Callable[[], float]]:
    """The block ends in time; it yields a clock."""
    began = time.monotonic()
    yield lambda: time.monotonic() - began
    took = time.monotonic() - began
    assert took <= seconds, f"took {took:.2f} s, not {seconds:g}"
