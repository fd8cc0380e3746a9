"""Builds the read-only root of a sandbox: the system's programs, a handful of devices, and nothing else of the host."""

from __future__ import annotations

import os

from turngym.sandboxes.inside import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BOX = "/sandbox"
"""Where the sandbox's own disk is mounted."""
HOME = "/sandbox/home"
"""Home and working directory of every program."""

_STAGE = "/tmp"
_DEVICES = ("null", "zero", "full", "random", "urandom")
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "opt")
_OWN = ("dev", "proc", "sys", "tmp", "run", "sandbox", "home", "root", "mnt", "media", "srv", "boot", "var")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "ssl", "ca-certificates")
_FIXED = kernel.MS_NOSUID | kernel.MS_NODEV


def build(config: dict[str, Any], names: dict[str, str]) -> None:
    """Make the root and move into it. The caller is alone in its mount namespace.

    Args:
        config: root (a folder; empty for the host's own system), binds (folders that are shown read-only, at
            the same place), and network.
        names: content of small files of /etc, by name.
    """
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    source = os.fsdecode(config["root"]) or "/"
    kernel.mount("root", _STAGE, "tmpfs", _FIXED, "size=256k,nr_inodes=512,mode=755")
    # The host's view stays reachable below /proc/self/fd of nobody: only until the root is changed.
    os.umask(0o022)
    _system(source, whole=source != "/")
    for path in config["binds"]:
        _bind(os.fsdecode(path), os.fsdecode(path))
    _etc(source, names, network=bool(config["network"]))
    _devices()
    for name in ("proc", "run", "mnt", "var", BOX[1:]):
        os.makedirs(os.path.join(_STAGE, name), exist_ok=True)
    for link, target in (("tmp", BOX + "/tmp"), ("var/tmp", BOX + "/tmp"), ("dev/shm", BOX + "/shm")):
        os.symlink(target, os.path.join(_STAGE, link))
    # A proc of this pid namespace: another one can only be mounted where one is visible already.
    kernel.mount("proc", _STAGE + "/proc", "proc", _FIXED | kernel.MS_NOEXEC)
    kernel.mount("none", _STAGE, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _FIXED)
    kernel.pivot_root(_STAGE)


def show_processes() -> None:
    """Mount the processes of this process's pid namespace."""
    kernel.mount("proc", "/proc", "proc", _FIXED | kernel.MS_NOEXEC)


def add_disk(disk_mib: int, inodes: int, uid: int, gid: int) -> None:
    """Mount the disk of one sandbox."""
    options = f"size={disk_mib}m,nr_inodes={inodes + 4},mode=755"
    kernel.mount("box", BOX, "tmpfs", _FIXED, options)
    for path, mode in ((HOME, 0o755), (BOX + "/tmp", 0o1777), (BOX + "/shm", 0o1777)):
        os.mkdir(path)
        os.chown(path, uid, gid)
        if mode != 0o755:  # which is what the umask leaves
            os.chmod(path, mode)


def _system(source: str, *, whole: bool) -> None:
    """The folders of programs and libraries; links such as /bin → usr/bin stay links."""
    names = _SYSTEM if not whole else [name for name in os.listdir(source) if name not in (*_OWN, "etc")]
    for name in names:
        path = os.path.join(source, name)
        if os.path.islink(path):
            os.symlink(os.readlink(path), os.path.join(_STAGE, name))
        elif os.path.isdir(path) and (whole or name != "opt"):
            _bind(path, "/" + name)


def _bind(source: str, target: str) -> None:
    place = _STAGE + target
    if os.path.isdir(source):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
    kernel.mount(source, place, None, kernel.MS_BIND | kernel.MS_REC)
    # The mounts below keep their own flags; none of them can be written where the host's own are not.
    kernel.mount(
        "none", place, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | _locked(source) | _FIXED
    )


def _locked(path: str) -> int:
    """Flags of the mount that a path is on: whoever is not its owner may add some, and must keep these."""
    flags = os.statvfs(path).f_flag
    kept = 0
    for seen, flag in (
        (os.ST_NOEXEC, kernel.MS_NOEXEC),
        (os.ST_NOATIME, 0x400),
        (os.ST_NODIRATIME, 0x800),
        (os.ST_RELATIME, 0x200000),
    ):
        if flags & seen:
            kept |= flag
    return kept


def _etc(source: str, names: dict[str, str], *, network: bool) -> None:
    os.mkdir(_STAGE + "/etc")
    for name in (*_ETC, *(("resolv.conf",) if network else ())):
        path = os.path.realpath(os.path.join(source, "etc", name))
        if os.path.exists(path):
            _bind(path, "/etc/" + name) if path.startswith("/etc/") or source != "/" else _copy(path, name)
    for name, text in names.items():
        with open(os.path.join(_STAGE, "etc", name), "w", encoding="utf-8") as file:
            file.write(text)


def _copy(path: str, name: str) -> None:
    """A link that leads out of /etc (the time zone): its target is part of the system that is shown anyway."""
    if path.startswith("/usr/"):
        os.symlink(path, os.path.join(_STAGE, "etc", name))
    else:
        _bind(path, "/etc/" + name)


def _devices() -> None:
    os.mkdir(_STAGE + "/dev")
    for name in _DEVICES:
        place = f"{_STAGE}/dev/{name}"
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o644))
        kernel.mount("/dev/" + name, place, None, kernel.MS_BIND)
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(target, f"{_STAGE}/dev/{name}")
