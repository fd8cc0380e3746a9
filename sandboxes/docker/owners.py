"""Whose container is it? Labels name the process that made it, so that the containers of the dead can be removed.

A process is known by its number and its start (numbers come again), the boot of its machine and its pid namespace:
of an owner on another machine, or in another container, nobody here can say that it is dead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turngym.sandboxes.docker.config import DockerConfig
from turngym.sandboxes.docker.engine import Engine, remove

RUN: Final = "turngym.run"
PID: Final = "turngym.owner.pid"
_START: Final = "turngym.owner.start"
_PLACE: Final = "turngym.owner.place"


def labels(run_id: str) -> dict[str, str]:
    """Labels of a container that this process makes."""
    return {RUN: run_id, PID: str(os.getpid()), _START: _start_of(os.getpid()), _PLACE: _place()}


def is_dead(found: Mapping[str, str]) -> bool:
    """True if the owner that labels name is certainly dead."""
    pid = found.get(PID, "")
    if found.get(_PLACE) != _place() or not pid.isdigit():
        return False
    return _start_of(int(pid)) != found.get(_START)


def remove_orphans(client: Any) -> list[str]:
    """Remove the containers whose owners are dead, running ones included; their names."""
    names = []
    for container in client.containers(all=True, filters={"label": PID}):
        if is_dead(container.get("Labels") or {}):
            remove(client, container["Id"])
            names.append(
                container["Names"][0].lstrip("/") if container.get("Names") else container["Id"][:12]
            )
    return names


def reap(config: DockerConfig | None = None) -> list[str]:
    """Remove what dead processes of this machine have left in the engine; the names of the containers.

    Raises:
        SandboxUnavailable: there is no engine.
    """
    config = config or DockerConfig()
    engine = Engine(config.engine, config.timeout_s)
    try:
        return engine.ask(remove_orphans)
    finally:
        engine.close()


def _start_of(pid: int) -> str:
    """When a process started, in ticks since the boot; empty if it is no more (a zombie included)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()


def _place() -> str:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {os.readlink('/proc/self/ns/pid')}"
