"""What a container is made with, and what its supervisor is told first."""

from __future__ import annotations

import resource
from typing import Any, Final

from turngym.sandboxes.docker.config import DockerConfig
from turngym.sandboxes.docker.engine import Facts
from turngym.sandboxes.docker.syscalls import profile
from turngym.sandboxes.host.bundle import BOOT_STREAMED
from turngym.sandboxes.host.cgroups import output_mib
from turngym.sandboxes.inside import seccomp
from turngym.sandboxes.inside.root import BOX, HOME
from turngym.sandboxes.limits import MIB, Limits

OVERHEAD_MIB: Final = 32
"""Memory of a container beyond what programs may use: the supervisor's own, with what it has imported."""

_TMP: Final = BOX + "/tmp"
_SHM: Final = BOX + "/shm"
_FREE_INODES: Final = 4  # the root of the disk and its three folders
_ENOUGH: Final = 32768
_SUPERVISOR: Final = 1  # it counts as a process as well
_CAPABILITIES: Final = ("SETUID", "SETGID", "KILL")
# What the engine hides of itself, and the kernel's own folder.
_MASKED: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/kernel",
)
# Version 1 of control groups shows a container its own below `memory`, version 2 at the top.
_KILLS: Final = ("/sys/fs/cgroup/memory/memory.oom_control", "/sys/fs/cgroup/memory.events")
_PEAKS: Final = ("/sys/fs/cgroup/memory/memory.max_usage_in_bytes", "/sys/fs/cgroup/memory.peak")


def container(
    client: Any, config: DockerConfig, facts: Facts, limits: Limits, name: str, labels: dict[str, str]
) -> dict[str, Any]:
    """Arguments of `create_container`."""
    memory = (limits.memory_mib + output_mib(limits) + OVERHEAD_MIB) * MIB
    host = {
        "network_mode": config.network if limits.network else "none",
        "cap_drop": ["ALL"],
        "cap_add": list(_CAPABILITIES),
        # Podman takes the name of a file on its own machine here: there its default profile holds.
        "security_opt": ["no-new-privileges", *([] if facts.is_podman else [f"seccomp={profile()}"])],
        "read_only": True,
        "tmpfs": _disks(facts, limits),
        "ipc_mode": "none",
        "pids_limit": limits.processes + _SUPERVISOR,
        "mem_limit": memory,
        "memswap_limit": memory,
        "ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}, *(_ulimits() if facts.is_podman else [])],
        # The supervisor is the first process itself: it collects orphans, it alone is spared by kill(-1), and with
        # its end the kernel ends everything. A second init would take all three from it.
        "init": False,
        "log_config": {"Type": "none", "Config": {}},
        # A container without a network gets the host's list of name servers all the same.
        "dns": [] if limits.network else ["127.0.0.1"],
        "dns_search": [] if limits.network else ["."],
        "auto_remove": True,
        "restart_policy": None,
    }
    if config.cpus is not None:
        host["nano_cpus"] = int(config.cpus * 1e9)
    if config.runtime is not None:
        host["runtime"] = config.runtime
    if not limits.network:
        host["sysctls"] = {"net.ipv4.ping_group_range": "1 0"}  # nobody
    made = client.create_host_config(**host)
    if not facts.is_podman:
        made["MaskedPaths"] = [*_MASKED]
    return {
        "image": facts.image,
        "name": name,
        "hostname": "sandbox",
        "user": "0:0",
        "working_dir": "/",
        "entrypoint": [config.python, "-I", "-S", "-c", BOOT_STREAMED],
        "command": ["supervise", "0", "1"],
        "environment": {"LANG": "C.UTF-8"},  # of the supervisor; programs get none of the image's variables
        "stdin_open": True,
        "tty": False,
        "detach": False,
        "labels": labels,
        "healthcheck": {"test": ["NONE"]},  # an image's own check would run as root beside the supervisor
        "host_config": made,
    }


def hello(config: DockerConfig, facts: Facts, uid: int) -> dict[str, Any]:
    """The first frame of a supervisor."""
    known = seccomp.supported(facts.machine)
    return {
        "ends": "all",
        "home": HOME,
        "uid": uid,
        "gid": uid,
        "filter": seccomp.program(facts.machine, memfd=facts.bounds_memory) if known else b"",
        "soft_memory": int(not facts.bounds_memory),
        "uid_is_own": 1,
        "warm": int(config.warm),
        "preload": int(config.warm),
        "modules": list(config.preload),
        "folders": [HOME, _TMP, _SHM],
        "disk": BOX,
        "links": [["/dev/shm", _SHM]],
        "shut": ["/dev/mqueue", "/dev/pts"],
        "kills": list(_KILLS),
        "peaks": list(_PEAKS),
    }


def _ulimits() -> list[dict[str, Any]]:
    """Those of this process, for Podman: it would raise them as far as the kernel goes, and may not everywhere.

    Others are set for each program.
    """
    found = []
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        hard = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
        found.append({"Name": name, "Soft": hard, "Hard": hard})
    return found


def _disks(facts: Facts, limits: Limits) -> dict[str, str]:
    """The sandbox's disk; for an image whose /tmp is no link into it, a second one there of the same size.

    Volumes that the image asks for are empty and cannot be written.
    """
    # Podman knows no bound on files; those that it has cost memory, which is bounded.
    files = "" if facts.is_podman else f",nr_inodes={limits.inodes + _FREE_INODES}"
    size = f"size={limits.disk_mib}m{files}"
    shut = dict.fromkeys(facts.volumes, "ro,nosuid,nodev,size=4k,mode=755")
    own = {BOX: f"rw,exec,nosuid,nodev,{size},mode=1777"}
    if not facts.has_links:
        own["/tmp"] = own[BOX]
    if facts.is_podman:  # it would mount unbounded ones here
        own["/tmp"] = own["/var/tmp"] = own[BOX]
        own["/run"] = "ro,nosuid,nodev,size=4k,mode=755"
    return shut | own
