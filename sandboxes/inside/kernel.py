"""The few system calls that Python's os module lacks: namespaces, mounts, capabilities, prctl.

The package `ctypes` would take half as long to import as Python takes to start, so that its engine is used alone.

Sources: the manual pages clone(2), unshare(2), mount(2), pivot_root(2), capset(2), prctl(2), user_namespaces(7).
"""

from __future__ import annotations

import _ctypes
import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2

_SIGCHLD = 17
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91},
}
_RTLD_NOW = 2
_CDECL, _USE_ERRNO = 0x1, 0x8


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "l"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _CDECL | _USE_ERRNO
    _restype_ = _Long


_libc = _ctypes.dlopen(None, _RTLD_NOW)  # type: ignore[arg-type]
_functions: dict[str, Any] = {}


def _call(name: str, *args: Any) -> int:
    """A function of the C library: integers are passed as long, bytes and None as pointers.

    Raises:
        OSError: it returned -1.
    """
    function = _functions.get(name)
    if function is None:
        function = _functions[name] = _Function(_ctypes.dlsym(_libc, name))
    result: int = function(*[_Long(arg) if isinstance(arg, int) else arg for arg in args])
    # A function that returns int leaves the upper half of the register undefined.
    if result & 0xFFFFFFFF == 0xFFFFFFFF:
        code = _ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _syscall(name: str, *args: Any) -> int:
    numbers = _NUMBERS.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, f"the processor {os.uname().machine} is not supported")
    return _call("syscall", numbers[name], *args)


def clone(flags: int = 0) -> int:
    """fork(), into new namespaces if flags say so; 0 in the child. The caller has one thread.

    The functions that modules have registered for a fork are not run: they free locks that other threads might
    hold, of which there are none, and seed `random`, which `become` does. They would take longer than the fork.
    """
    return _syscall("clone", flags | _SIGCHLD, 0, 0, 0, 0)


def unshare(flags: int) -> None:
    """Move this process into new namespaces (for CLONE_NEWPID: its next children)."""
    _call("unshare", flags)


def setns(fd: int) -> None:
    """Join a namespace by its descriptor (of processes: the next children do)."""
    _call("setns", fd, 0)


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2)."""
    try:
        _call(
            "mount",
            os.fsencode(source),
            os.fsencode(target),
            None if kind is None else kind.encode(),
            flags,
            options.encode() or None,
        )
    except OSError as error:
        raise OSError(error.errno, f"mount {target}: {os.strerror(error.errno or 0)}") from None


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _call("umount2", os.fsencode(target), flags)


def pivot_root(new_root: str) -> None:
    """Make a mount point the root of this mount namespace, and forget the old root."""
    os.chdir(new_root)
    _syscall("pivot_root", b".", b".")
    unmount(".", MNT_DETACH)
    os.chdir("/")


def prctl(option: int, first: int = 0, second: Any = 0) -> None:
    """prctl(2)."""
    _call("prctl", option, first, second, 0, 0)


def drop_bounding_set() -> None:
    """Make sure that nothing that this process starts can gain a capability."""
    for number in range(64):
        try:
            prctl(PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno != errno.EINVAL:  # past the last capability
                raise
            return


def keep_capabilities(bits: int) -> None:
    """Keep some of this process's capabilities (a bit for each number), and give up the others for ever."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    use_capabilities(bits, bits)


def use_capabilities(bits: int, permitted: int) -> None:
    """Use some of this process's capabilities; it may take those that stay permitted up again."""
    # _LINUX_CAPABILITY_VERSION_3, this process; effective, permitted, inheritable, twice 32 bits
    header = struct.pack("=II", 0x20080522, 0)
    low, high = (bits & 0xFFFFFFFF, permitted & 0xFFFFFFFF), (bits >> 32, permitted >> 32)
    _syscall("capset", header, struct.pack("=6I", *low, 0, *high, 0))


class _Bytes(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "z"


class _Short(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "H"


class _FilterProgram(_ctypes.Structure):
    _fields_ = [("length", _Short), ("filter", _Bytes)]  # noqa: RUF012 (the engine wants a list)


def filter_syscalls(program: bytes) -> None:
    """Install a compiled seccomp filter; needs no_new_privs."""
    code = _FilterProgram(len(program) // 8, program)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, _ctypes.byref(code))
