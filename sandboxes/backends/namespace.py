"""Namespaces of the kernel, without a daemon: the default for code that nobody has read.

A launcher forks keepers; each keeper makes one sandbox after the other, and a program is a fork away from a Python
that has imported the standard library (see `inside/keeper.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from turngym.sandboxes.capabilities import Capabilities, Capability
from turngym.sandboxes.errors import SandboxLost, SandboxUnavailable
from turngym.sandboxes.host.answers import program_env
from turngym.sandboxes.host.channel import HostChannel
from turngym.sandboxes.host.launcher import Launcher, Started
from turngym.sandboxes.host.slots import Slot, Slots, why_missing
from turngym.sandboxes.host.supervised import SupervisedSandbox
from turngym.sandboxes.inside import seccomp
from turngym.sandboxes.inside.root import HOME
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.probe import probe

_READY_S: Final = 20.0
_CLOSE_S: Final = 10.0
_OWN_PROCESSES: Final = 3  # keeper and zygotes


class NamespaceConfig(BaseModel):
    """How the namespace backend builds its sandboxes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    python: str | None = None
    """The interpreter within; default: the system's (`/usr/bin/python3`)."""
    root: Path | None = None
    """A folder with a whole system; default: the host's /usr, read-only. Programs in it start cold."""
    packages: tuple[Path, ...] = ()
    """Folders of Python packages that programs can import, shown at the same place, read-only."""
    binds: tuple[Path, ...] = ()
    """Further files and folders of the host that are shown, read-only, at the same place."""
    preload: tuple[str, ...] = ()
    """Modules that are imported before programs start, such as numpy."""
    warm: bool = True
    """Whether a Python program is a fork of a ready interpreter; it then shares its hash seed with others."""
    max_sandboxes: int = Field(default=256, ge=1, le=20000)
    """The most at once on this machine, over all processes with the same `uid_base`."""
    uid_base: int = Field(default=1_200_000, ge=1000, le=2_000_000_000)
    """First of the user ids that sandboxes get (two each) where this process may choose: as root."""
    cgroups: bool = True
    """Whether to bound memory and processes by control groups where they can be had."""


class _SlotLease:
    """A keeper in a slot; goes back to the backend if it is as good as new after a sandbox."""

    def __init__(self, backend: NamespaceBackend, slot: Slot, keeper: Started, *, network: bool) -> None:
        self.backend = backend
        self.slot = slot
        self.keeper = keeper
        self.network = network

    def begin(self, limits: Limits) -> None:
        """Set the slot's limits for the next sandbox.

        Raises:
            SandboxUnavailable: the kernel refuses.
        """
        group = self.slot.group
        if group is not None:
            group.prepare(limits, _OWN_PROCESSES)
            self.channel.oom_kills = group.oom_kills

    @property
    def channel(self) -> HostChannel:
        """To the keeper, or to the init of the sandbox in it."""
        return self.keeper.channel

    async def release(self) -> None:
        """End the sandbox; keep the slot if its keeper says that everything is dead."""
        try:
            clean = await self._end_sandbox()
        except BaseException:
            await asyncio.shield(self.destroy())
            raise
        if clean:
            self.backend._give_back(self)
        else:
            await self.destroy()

    async def destroy(self) -> None:
        """End the keeper, and free the slot. Safe to call twice."""
        if self.backend._forget(self):
            await self.keeper.kill()
            self.slot.free()

    async def _end_sandbox(self) -> bool:
        if self.channel.closed:
            return False
        with contextlib.suppress(SandboxLost):
            await self.channel.send({"verb": "close"})
            answer = await self.channel.receive(_CLOSE_S)
            return "closed" in answer
        return False


class NamespaceBackend:
    """Sandboxes in namespaces of their own."""

    def __init__(self, config: NamespaceConfig | None = None) -> None:
        self._config = config or NamespaceConfig()
        self._python = self._config.python or system_python()
        self._mapped = os.geteuid() == 0
        paths = os.pathsep.join(str(path) for path in self._config.packages)
        self._env = {"PYTHONPATH": paths} if paths else {}
        self._slots: Slots | None = None
        self._launcher = Launcher(
            self._python, self._config.preload, tuple(str(path) for path in self._config.packages)
        )
        self._idle: list[_SlotLease] = []
        self._all: set[_SlotLease] = set()
        self._found: Capabilities | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """What it is called in configurations."""
        return "namespace"

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
        lease = await self._lease(limits.network)
        try:
            lease.begin(limits)
            await lease.channel.send(
                {
                    "disk_mib": limits.disk_mib,
                    "inodes": limits.inodes,
                    "warm": int(self._config.warm and self._config.root is None),
                }
            )
        except BaseException:
            await asyncio.shield(lease.destroy())
            raise
        return SupervisedSandbox(lease, limits, home=HOME, env=self._env)

    async def close(self) -> None:
        """Close every sandbox that it made. Safe to call twice."""
        self._closed = True
        for lease in list(self._all):
            await lease.destroy()
        await asyncio.to_thread(self._launcher.close)

    async def _lease(self, network: bool) -> _SlotLease:
        for index, lease in enumerate(self._idle):
            if lease.network == network:
                del self._idle[index]
                return lease
        if self._slots is None:
            self._slots = Slots(
                self._config.max_sandboxes, self._config.uid_base, groups=self._config.cgroups
            )
        await self._launcher.ready()  # it removes the slot's control groups, should this process be killed
        slot = self._slots.take()
        try:
            keeper = await self._start_keeper(slot, network=network)
        except BaseException:
            slot.free()
            raise
        lease = _SlotLease(self, slot, keeper, network=network)
        self._all.add(lease)
        return lease

    async def _start_keeper(self, slot: Slot, *, network: bool) -> Started:
        machine = os.uname().machine
        group = slot.group
        binds = [*self._config.packages, *self._config.binds]
        if self._config.root is None and not self._python.startswith("/usr/"):
            binds.append(Path(os.path.realpath(self._python)).parents[1])
        request: dict[str, Any] = {
            "verb": "keep",
            "mapped": self._mapped,
            "uids": list(slot.ids),
            "gids": list(slot.ids),
            "network": network,
            "env": program_env(HOME, self._env),
            "root": str(self._config.root or ""),
            "binds": [str(path) for path in binds],
            "filter": seccomp.program(machine, memfd=group is not None)
            if seccomp.supported(machine)
            else b"",
            "joins": 0 if group is None else len(group.join_fds),
            "groups": [] if group is None else [str(path) for path in group.paths],
        }
        fds = (
            []
            if group is None
            else [*group.join_fds, group.oom_fd, *([group.peak_fd] if group.peak_fd >= 0 else [])]
        )
        keeper = await (await self._launcher.ready()).start(request, fds)
        try:
            await keeper.channel.receive(_READY_S)
        except SandboxLost as error:
            await keeper.kill()
            raise SandboxUnavailable(
                f"no namespaces for a sandbox here: {self._launcher.log() or error}"
            ) from error
        except BaseException:
            await asyncio.shield(keeper.kill())
            raise
        return keeper

    def _give_back(self, lease: _SlotLease) -> None:
        if self._closed:
            return
        self._idle.append(lease)

    def _forget(self, lease: _SlotLease) -> bool:
        """False if it was forgotten before."""
        if lease in self._idle:
            self._idle.remove(lease)
        known = lease in self._all
        self._all.discard(lease)
        return known


def system_python() -> str:
    """The interpreter that sandboxes see below /usr, else the one that runs this."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path
    return os.path.join(sys.base_prefix, "bin", "python3")
