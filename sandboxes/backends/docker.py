"""Containers of an engine: for machines that have one, for other images, and for gVisor's kernel.

One container is one sandbox. Its first process is the supervisor, root with three capabilities and without a file
that it could write; each program is a child under another user without any. The host speaks with it over the
attached standard streams, and when that connection ends the container does.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from typing import Final

from turngym.sandboxes.capabilities import Capabilities, Capability
from turngym.sandboxes.docker.attach import AttachChannel
from turngym.sandboxes.docker.config import DockerConfig
from turngym.sandboxes.docker.engine import Engine, Facts, ended_for_memory, look, remove, start
from turngym.sandboxes.docker.options import container, hello
from turngym.sandboxes.docker.owners import labels, remove_orphans
from turngym.sandboxes.errors import SandboxError, SandboxLost, SandboxUnavailable
from turngym.sandboxes.host.bundle import sources
from turngym.sandboxes.host.channel import EndedForMemory
from turngym.sandboxes.host.slots import Slot, Slots
from turngym.sandboxes.host.supervised import SupervisedSandbox
from turngym.sandboxes.inside.root import HOME
from turngym.sandboxes.limits import DEFAULT_LIMITS, Limits
from turngym.sandboxes.probe import probe

_OWN_KERNELS: Final = ("runsc", "kata")  # runtimes whose containers have a kernel of their own
_NAMES: Final = {"USER": "user", "LOGNAME": "user"}  # the image's list of users does not know the program's
_UID_BASE: Final = 1_200_000
_UID_BASE_MAPPED: Final = 20_000  # a mapped container knows the ids below 65,536 alone


class _Container:
    """One container, the user id that it has to itself, and the channel to its supervisor."""

    def __init__(self, backend: DockerBackend, name: str, slot: Slot) -> None:
        self._backend = backend
        self._slot = slot
        self._channel: AttachChannel | None = None
        self._released = False
        self.name = name

    @property
    def channel(self) -> AttachChannel:
        """To the supervisor."""
        assert self._channel is not None
        return self._channel

    def connect(self, link: socket.socket) -> AttachChannel:
        """Take the attached connection."""
        self._channel = AttachChannel(link, self._ended_for_memory)
        return self._channel

    async def release(self) -> None:
        """End the container, and free its user id. Safe to call twice."""
        if self._released:
            return
        self._released = True
        if self._channel is not None:
            self._channel.close()
        try:
            await self._backend.engine.call(lambda client: remove(client, self.name))
        finally:
            self._backend.forget(self)
            self._slot.free()

    async def _ended_for_memory(self, since: float) -> bool:
        if self._released:
            return False
        try:
            return await self._backend.engine.call(lambda client: ended_for_memory(client, self.name, since))
        except SandboxError:  # no engine to ask: nobody knows why
            return False


class DockerBackend:
    """Sandboxes in containers."""

    def __init__(self, config: DockerConfig | None = None) -> None:
        self._config = config or DockerConfig()
        self.engine = Engine(self._config.engine, self._config.timeout_s)
        """The connection to the engine."""
        self._run_id = self._config.run_id or secrets.token_hex(6)
        self._facts: Facts | None = None
        self._looking = asyncio.Lock()
        self._slots: Slots | None = None
        self._all: set[_Container] = set()
        self._found: Capabilities | None = None
        self._closed = False

    @property
    def name(self) -> str:
        """What it is called in configurations."""
        return "docker"

    async def capabilities(self) -> Capabilities:
        """What it enforces here."""
        if self._found is None:
            own_kernel = self._config.runtime is not None and self._config.runtime.startswith(_OWN_KERNELS)
            await self._look()
            self._found = await probe(self, frozenset({"own_uid", "kernel"} if own_kernel else {"own_uid"}))
        return self._found

    def remedies(self) -> dict[Capability, str]:
        """Why something that it could enforce may be missing here."""
        found: dict[Capability, str] = {}
        if self._facts is not None and not self._facts.bounds_memory:
            found["hard_memory"] = found["hard_processes"] = (
                "the engine has no control groups at its disposal: delegate them to the rootless engine "
                "(`systemctl --user` with Delegate=yes), or run it as root"
            )
        if self._config.runtime is None or not self._config.runtime.startswith(_OWN_KERNELS):
            found["kernel"] = "containers share the host's kernel: install gVisor, and set runtime=runsc"
        return found

    async def create(self, limits: Limits = DEFAULT_LIMITS) -> SupervisedSandbox:
        """A fresh sandbox (see `Backend.create`)."""
        if self._closed:
            raise SandboxUnavailable("this sandbox backend is closed")
        facts = await self._look()
        assert self._slots is not None
        slot = self._slots.take()
        lease = _Container(self, f"turngym-{self._run_id}-{secrets.token_hex(4)}", slot)
        self._all.add(lease)
        begun = asyncio.ensure_future(self._begin(facts, limits, lease.name))
        try:
            channel = lease.connect(await asyncio.shield(begun))
            await channel.send(repr(sources()), hello(self._config, facts, slot.ids[1]))
            await self._ready(channel)
        except BaseException:
            await asyncio.shield(_undo(begun, lease))
            raise
        return SupervisedSandbox(lease, limits, home=HOME, env=_NAMES)

    async def close(self) -> None:
        """Close every sandbox that it made. Safe to call twice."""
        self._closed = True
        await asyncio.gather(*(lease.release() for lease in list(self._all)), return_exceptions=True)
        await asyncio.to_thread(self.engine.close)

    def forget(self, lease: _Container) -> None:
        """A container is gone."""
        self._all.discard(lease)

    async def _begin(self, facts: Facts, limits: Limits, name: str) -> socket.socket:
        made_by = labels(self._run_id)
        return await self.engine.call(
            lambda client: start(client, container(client, self._config, facts, limits, name, made_by))
        )

    async def _ready(self, channel: AttachChannel) -> None:
        try:
            await channel.receive(self._config.timeout_s)
        except EndedForMemory as error:
            raise SandboxUnavailable(
                "the container has too little memory for its supervisor: raise memory_mib"
            ) from error
        except SandboxLost as error:
            raise SandboxUnavailable(
                f"the supervisor does not start in a container of {self._config.image!r} (it needs "
                f"{self._config.python}, 3.10 or newer): {channel.log or error}"
            ) from error

    async def _look(self) -> Facts:
        """Facts about the engine; found once, after the orphans of earlier runs are gone."""
        async with self._looking:
            if self._facts is None:
                facts = await self.engine.call(lambda client: look(client, self._config))
                await self.engine.call(remove_orphans)
                base = self._config.uid_base or (_UID_BASE_MAPPED if facts.maps_users else _UID_BASE)
                self._slots = Slots(self._config.max_sandboxes, base, groups=False)
                self._facts = facts
            return self._facts


async def _undo(begun: asyncio.Future[socket.socket], lease: _Container) -> None:
    """Take back a sandbox that was not finished: a container may yet come of the engine's last call."""
    await asyncio.wait([begun])
    with contextlib.suppress(SandboxError):
        if begun.exception() is None:
            begun.result().close()
        await lease.release()
