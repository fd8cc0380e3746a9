"""One bubblewrap per sandbox: slower than the warm slots of `namespace`, and nothing is shared between sandboxes.

Each has an interpreter of its own, so hash seed and address layout are fresh, and its walls are built by a program
that many others rely on. The supervisor is the first process within.

Source: bwrap(1). As root bubblewrap would keep the host's uid 0 and all its capabilities, so that the launcher
becomes the slot's user first.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from turngym.sandboxes.backends.namespace import NamespaceConfig, system_python
from turngym.sandboxes.capabilities import Capabilities, Capability
from turngym.sandboxes.errors import SandboxLost, SandboxUnavailable
from turngym.sandboxes.host.bundle import BOOT_COMPILED, compiled
from turngym.sandboxes.host.channel import HostChannel
from turngym.sandboxes.host.launcher import Branch, Launcher, Started
from turngym.sandboxes.host.slots import Slot, Slots, why_missing
from turngym.sandboxes.host.supervised import SupervisedSandbox
from turngym.sandboxes.inside import seccomp
from turngym.sandboxes.inside.keeper import PROGRAM_ID, names
from turngym.sandboxes.inside.root import BOX, HOME
from turngym.sandboxes.limits import DEFAULT_LIMITS, MIB, Limits
from turngym.sandboxes.probe import probe

_READY_S: Final = 20.0
_CLOSE_S: Final = 2.0
_LOOKS, _LOOK_S = 20, 0.005
_DEVICES: Final = ("null", "zero", "full", "random", "urandom")
_LINKS: Final = (("/tmp", f"{BOX}/tmp"), ("/var/tmp", f"{BOX}/tmp"), ("/dev/shm", f"{BOX}/shm"))
# Descriptors that the supervisor finds open: its code, the channel, and the kernel's counts; bubblewrap reads the
# filter from its own.
_CODE_FD, _CHANNEL_FD, _FILTER_FD, _OOM_FD, _PEAK_FD = 5, 6, 7, 8, 9
_OWN_PROCESSES: Final = 3  # the slot's helper, bubblewrap, and the supervisor
_FIRST_NAME_FD = 10  # bubblewrap copies the files of /etc from these


class _Place:
    """A slot, and the helper that starts programs within its control groups."""

    def __init__(self, slot: Slot, branch: Branch) -> None:
        self.slot = slot
        self.branch = branch

    async def free(self) -> None:
        """End the helper, and give the slot back."""
        await self.branch.end()
        self.slot.free()


class _Lease:
    """One bubblewrap process in a slot."""

    def __init__(self, backend: BubblewrapBackend, place: _Place, process: Started) -> None:
        self._backend = backend
        self._place = place
        self._process = process
        self._released = False

    @property
    def channel(self) -> HostChannel:
        """To the supervisor within."""
        return self._process.channel

    async def release(self) -> None:
        """End the process, with which everything in its namespace ends."""
        if not self._released:
            self._released = True
            self._backend._leases.discard(self)
            try:
                await self._ask_to_end()
            finally:
                await self._process.kill()
                await self._backend._give_back(self._place)

    async def _ask_to_end(self) -> None:
        """Let the supervisor end by itself: bubblewrap then ends after everything else, and not before it."""
        with contextlib.suppress(SandboxLost):
            await self.channel.send({"verb": "close"})
            await self._process.ended(_CLOSE_S)


class BubblewrapBackend:
    """One-shot sandboxes through bubblewrap."""

    def __init__(self, config: NamespaceConfig | None = None) -> None:
        self._config = config or NamespaceConfig()
        self._python = self._config.python or system_python()
        self._mapped = os.geteuid() == 0
        self._launcher = Launcher(self._python)
        self._slots: Slots | None = None
        self._free: list[_Place] = []
        self._leases: set[_Lease] = set()
        self._works = False
        self._found: Capabilities | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """What it is called in configurations."""
        return "one-shot"

    async def capabilities(self) -> Capabilities:
        """What it enforces here."""
        if self._found is None:
            self._found = await probe(self, frozenset({"own_uid"} if self._mapped else ()))
        return self._found

    def remedies(self) -> dict[Capability, str]:
        """Why something that it could enforce may be missing here."""
        return why_missing(self._slots, may_choose_ids=self._mapped)

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> SupervisedSandbox:
        """A fresh sandbox (see `Backend.create`)."""
        if self._closed:
            raise SandboxUnavailable("this sandbox backend is closed")
        program = shutil.which("bwrap")
        if program is None:
            raise SandboxUnavailable(
                "bubblewrap is not installed: apt-get install bubblewrap, or use `namespace`"
            )
        place = self._free.pop() if self._free else await self._new_place()
        try:
            if place.slot.group is not None:
                place.slot.group.prepare(limits, _OWN_PROCESSES)
            process = await self._start(program, place, limits)
        except BaseException:
            await asyncio.shield(place.free())
            raise
        lease = _Lease(self, place, process)
        self._leases.add(lease)
        try:
            await self._greet(lease, place.slot)
        except BaseException:
            await asyncio.shield(lease.release())
            raise
        paths = os.pathsep.join(str(path) for path in self._config.packages)
        return SupervisedSandbox(lease, limits, home=HOME, env={"PYTHONPATH": paths} if paths else None)

    async def close(self) -> None:
        """Close every sandbox that it made. Safe to call twice."""
        self._closed = True
        for lease in list(self._leases):
            await lease.release()
        while self._free:
            await self._free.pop().free()
        await asyncio.to_thread(self._launcher.close)

    async def _new_place(self) -> _Place:
        if self._slots is None:
            self._slots = Slots(
                self._config.max_sandboxes, self._config.uid_base, groups=self._config.cgroups
            )
        await self._launcher.ready()  # it removes the slot's control groups, should this process be killed
        slot = self._slots.take()
        group = slot.group
        request = {
            "mapped": self._mapped,
            "uids": [slot.ids[1]],
            "gids": [slot.ids[1]],
            "joins": 0 if group is None else len(group.join_fds),
            "groups": [] if group is None else [str(path) for path in group.paths],
        }
        try:
            return _Place(slot, await self._launcher.branch(request, [] if group is None else group.join_fds))
        except BaseException:
            slot.free()
            raise

    async def _give_back(self, place: _Place) -> None:
        """Keep a place for the next sandbox, if nobody is left in it but its helper."""
        if not self._closed and await _is_empty(place):
            self._free.append(place)
        else:
            await place.free()

    async def _start(self, program: str, place: _Place, limits: Limits) -> Started:
        counts = _counts(place.slot)
        with contextlib.ExitStack() as stack:
            code, rules, *texts = (
                stack.enter_context(_memory_file(data))
                for data in (
                    compiled(self._python),
                    self._filter(place.slot),
                    *map(str.encode, names().values()),
                )
            )
            request: dict[str, Any] = {
                "verb": "run",
                "argv": [program, *self._arguments(limits)],
                "places": [
                    _CHANNEL_FD,
                    _CODE_FD,
                    _FILTER_FD,
                    *range(_FIRST_NAME_FD, _FIRST_NAME_FD + len(texts)),
                    *(_OOM_FD, _PEAK_FD)[: len(counts)],
                ],
                "groups": [],
            }
            return await place.branch.helper.start(request, [code, rules, *texts, *counts])

    async def _greet(self, lease: _Lease, slot: Slot) -> None:
        """Tell the supervisor what surrounds it."""
        folders = [BOX, HOME, f"{BOX}/tmp", f"{BOX}/shm"]
        await lease.channel.send(
            {
                "ends": "all",
                "home": HOME,
                "uid": PROGRAM_ID,
                "gid": PROGRAM_ID,
                "filter": b"",  # bubblewrap has installed it for the supervisor too
                "soft_memory": int(slot.group is None),
                "uid_is_own": 1,
                **dict(zip(("oom_fd", "peak_fd"), (_OOM_FD, _PEAK_FD)[: len(_counts(slot))], strict=False)),
                # Its interpreter was started for this sandbox alone, so that programs may be forks of it.
                "warm": int(self._config.root is None),
                "preload": 0,
                "folders": folders,
                "announce": int(not self._works),
            }
        )
        if self._works:  # then nobody need wait for the word that it does
            return
        try:
            await lease.channel.receive(_READY_S)
        except SandboxLost as error:
            raise SandboxUnavailable(
                f"bubblewrap makes no sandbox here: {self._launcher.log() or error}"
            ) from error
        self._works = True

    def _filter(self, slot: Slot) -> bytes:
        machine = os.uname().machine
        if not seccomp.supported(machine):
            raise SandboxUnavailable(f"there is no system-call filter for the processor {machine}")
        return seccomp.program(machine, memfd=slot.group is not None)

    def _arguments(self, limits: Limits) -> list[str]:
        config = self._config
        given = ["--unshare-user", "--uid", str(PROGRAM_ID), "--gid", str(PROGRAM_ID), "--unshare-pid"]
        given += ["--as-pid-1", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup", "--hostname", "sandbox"]
        given += ["--cap-drop", "ALL", "--disable-userns", "--new-session", "--die-with-parent", "--clearenv"]
        given += [] if limits.network else ["--unshare-net"]
        for path, target in _system(config.root):
            given += (
                ["--symlink", os.readlink(path), target]
                if path.is_symlink()
                else ["--ro-bind", str(path), target]
            )
        for path in (*config.packages, *config.binds):
            given += ["--ro-bind", str(path), str(path)]
        for name in _DEVICES:
            given += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
        given += ["--symlink", "/proc/self/fd", "/dev/fd", "--dir", "/etc", "--proc", "/proc"]
        for number, name in enumerate(names()):
            given += ["--perms", "0644", "--file", str(_FIRST_NAME_FD + number), f"/etc/{name}"]
        for name in ("alternatives", "ld.so.cache", *(("resolv.conf",) if limits.network else ())):
            given += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        given += ["--size", str(limits.disk_mib * MIB), "--perms", "0755", "--tmpfs", BOX]
        for link, target in _LINKS:
            given += ["--symlink", target, link]
        given += ["--remount-ro", "/", "--seccomp", str(_FILTER_FD), "--chdir", BOX, "--", self._python]
        given += [
            "-I",
            "-S",
            "-c",
            BOOT_COMPILED,
            str(_CODE_FD),
            "supervise",
            str(_CHANNEL_FD),
            str(_CHANNEL_FD),
        ]
        return given


async def _is_empty(place: _Place) -> bool:
    """Whether only the helper is in a slot; whoever was killed with bubblewrap dies a moment after it."""
    group = place.slot.group
    if group is None:
        return True
    for _ in range(_LOOKS):
        if group.count() <= 1:
            return True
        await asyncio.sleep(_LOOK_S)
    return False


@contextlib.contextmanager
def _memory_file(data: bytes) -> Iterator[int]:
    """Bytes as a descriptor, for as long as a `with` lasts."""
    fd = os.memfd_create("turngym")
    try:
        os.write(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        yield fd
    finally:
        os.close(fd)


def _counts(slot: Slot) -> list[int]:
    """Descriptors of what the kernel counts for a slot: deaths for want of memory, and the peak."""
    if slot.group is None:
        return []
    return [slot.group.oom_fd, *([slot.group.peak_fd] if slot.group.peak_fd >= 0 else [])]


def _system(root: Path | None) -> list[tuple[Path, str]]:
    """Folders of programs and libraries, and where they go."""
    if root is None:
        names = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"]
        return [(Path("/", name), f"/{name}") for name in names if Path("/", name).exists()]
    hidden = {"dev", "proc", "sys", "tmp", "run", "sandbox", "home", "root", "var", "etc"}
    return [(path, f"/{path.name}") for path in sorted(root.iterdir()) if path.name not in hidden]
