"""The few system calls that Python's os module lacks: namespaces, mounts, capabilities, prctl.

Sources: the manual pages clone(2), unshare(2), mount(2), pivot_root(2), capset(2), prctl(2), user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import errno
import os

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
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _syscall(name: str, *args: object) -> int:
    numbers = _NUMBERS.get(os.uname().machine)
    if numbers is None:
        raise OSError(38, f"the processor {os.uname().machine} is not supported")
    values = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return _checked(_libc.syscall(ctypes.c_long(numbers[name]), *values), name)


def clone(flags: int = 0) -> int:
    """fork(), into new namespaces if flags say so; 0 in the child. The caller has one thread.

    The functions that modules have registered for a fork are not run: they free locks that other threads might
    hold, of which there are none, and seed `random`, which `become` does. They would take longer than the fork.
    """
    return _syscall("clone", flags | _SIGCHLD, 0, 0, 0, 0)


def unshare(flags: int) -> None:
    """Move this process into new namespaces (for CLONE_NEWPID: its next children)."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2)."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _checked(result, f"mount {target}")


def unmount(target: str, flags: int = 0) -> None:
    """umount2(2)."""
    _checked(_libc.umount2(os.fsencode(target), flags), f"umount {target}")


def pivot_root(new_root: str) -> None:
    """Make a mount point the root of this mount namespace, and forget the old root."""
    os.chdir(new_root)
    _syscall("pivot_root", b".", b".")
    unmount(".", MNT_DETACH)
    os.chdir("/")


def prctl(option: int, first: int = 0, second: object = 0) -> None:
    """prctl(2)."""
    last = ctypes.c_ulong(second) if isinstance(second, int) else second
    _checked(_libc.prctl(option, ctypes.c_ulong(first), last, ctypes.c_ulong(0), ctypes.c_ulong(0)), "prctl")


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
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    low, high = bits & 0xFFFFFFFF, bits >> 32
    data = (ctypes.c_uint32 * 6)(
        low, low, 0, high, high, 0
    )  # effective, permitted, inheritable, twice 32 bits
    _syscall("capset", ctypes.byref(header), ctypes.byref(data))


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


def filter_syscalls(program: bytes) -> None:
    """Install a compiled seccomp filter; needs no_new_privs."""
    code = _Program(len(program) // 8, program)
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(code))
