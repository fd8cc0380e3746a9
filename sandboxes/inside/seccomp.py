"""The system-call filter of every program: what no honest program needs is answered with an error.

It is a list of what is refused, not of what is allowed, since the programs are arbitrary: the walls are
namespaces, user ids and control groups, and the filter keeps attackers away from the parts of the kernel that
have most often let them through. It is classic BPF, built by hand so that bubblewrap can be given it as bytes.

Source: seccomp(2); struct seccomp_data and sock_filter of linux/seccomp.h and linux/filter.h.
"""

from __future__ import annotations

import struct

# fmt: off
_TABLES = {
    # name: (AUDIT_ARCH, system calls that answer EPERM, and the numbers of those with rules of their own)
    "x86_64": (
        0xC000003E,
        (
            101, 310, 311, 440, 448, 438, 312,  # ptrace, process_vm_*, process_madvise/_mrelease, pidfd_getfd, kcmp
            425, 426, 427, 321, 250, 248, 249, 323, 298,  # io_uring_*, bpf, keyctl and keys, userfaultfd, perf
            165, 166, 155, 161, 429, 428, 430, 431, 432, 433, 442, 308,  # mounts, chroot, open_tree, fs*, setns
            246, 320, 175, 313, 176, 169, 167, 168, 163, 179, 443, 304, 303, 212,  # kexec, modules, reboot, swap, ...
            172, 173, 154, 103, 170, 171, 164, 227, 305, 159, 153,  # ports, ldt, syslog, names, clocks, vhangup
            279, 256, 237, 238, 450,  # moving pages, memory policies
            300, 180, 447, 134, 136, 139, 135,  # fanotify_init, nfsservctl, memfd_secret, uselib, ustat, sysfs, ...
        ),
        {
            "clone": 56, "clone3": 435, "unshare": 272, "socket": 41, "socketpair": 53, "prlimit64": 302,
            "ioctl": 16, "memfd_create": 319,
        },
    ),
    "aarch64": (
        0xC00000B7,
        (
            117, 270, 271, 440, 448, 438, 272,
            425, 426, 427, 280, 219, 217, 218, 282, 241,
            40, 39, 41, 51, 429, 428, 430, 431, 432, 433, 442, 268,
            104, 294, 105, 273, 106, 142, 224, 225, 89, 60, 443, 265, 264, 18,
            116, 161, 162, 170, 112, 266, 171, 58,
            239, 238, 235, 237, 450,
            262, 42, 447, 92,
        ),
        {
            "clone": 220, "clone3": 435, "unshare": 97, "socket": 198, "socketpair": 199, "prlimit64": 261,
            "ioctl": 29, "memfd_create": 279,
        },
    ),
}
# fmt: on

_LOAD, _JEQ, _JGE, _JSET, _RET = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 1, 38, 97
_NR, _ARCH = 0, 4
_X32 = 0x40000000
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
# CLONE_NEW* but for TIME, whose bit is part of the exit signal in clone and a flag in unshare alone
_NEW = 0x7E020000
_NEW_TIME = 0x80


def supported(machine: str) -> bool:
    """True if there is a filter for this kind of processor (`os.uname().machine`)."""
    return machine in _TABLES


def program(machine: str, *, memfd: bool = True) -> bytes:
    """The compiled filter.

    Args:
        machine: kind of processor, as `os.uname().machine` names it.
        memfd: False refuses memfd_create, whose memory only a control group bounds.

    Raises:
        KeyError: there is none for this processor.
    """
    arch, refused, numbers = _TABLES[machine]
    eperm = [_op(_RET, _ERRNO | _EPERM)]
    allow = [_op(_RET, _ALLOW)]
    calls = dict.fromkeys(refused, eperm)
    # Its flags lie behind a pointer: C libraries fall back to clone.
    calls[numbers["clone3"]] = [_op(_RET, _ERRNO | _ENOSYS)]
    if not memfd:
        calls[numbers["memfd_create"]] = [_op(_RET, _ERRNO | _ENOSYS)]
    calls[numbers["clone"]] = [*_argument(0), _op(_JSET, _NEW, 0, 1), *eperm, *allow]
    calls[numbers["unshare"]] = [*_argument(0), _op(_JSET, _NEW | _NEW_TIME, 0, 1), *eperm, *allow]
    calls[numbers["socket"]] = _argument(0) + _only(_AF_UNIX, _AF_INET, _AF_INET6)
    calls[numbers["socketpair"]] = _argument(0) + _only(_AF_UNIX)
    # A program may look at and lower its own limits (process 0 means the caller), not another's.
    calls[numbers["prlimit64"]] = [*_argument(0), _op(_JEQ, 0, 1, 0), *eperm, *allow]
    calls[numbers["ioctl"]] = [
        *_argument(1), _op(_JEQ, _TIOCSTI, 1, 0), _op(_JEQ, _TIOCLINUX, 0, 1), *eperm, *allow
    ]  # fmt: skip
    code = [_op(_LOAD, _ARCH), _op(_JEQ, arch, 1, 0), _op(_RET, _KILL), _op(_LOAD, _NR)]
    if machine == "x86_64":
        code += [_op(_JGE, _X32, 0, 1), _op(_RET, _KILL)]
    return b"".join(code + _search(_ranges(calls, allow)))


def _ranges(calls: dict[int, list[bytes]], otherwise: list[bytes]) -> list[tuple[int, list[bytes]]]:
    """Numbers of system calls as ranges, each with the block that answers it: first number of each, in order."""
    ranges = [(0, otherwise)]
    for number in sorted(calls):
        if ranges[-1][1] is not calls[number]:
            ranges.append((number, calls[number]))
        if number + 1 not in calls:
            ranges.append((number + 1, otherwise))
    return ranges


def _search(ranges: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Find the range of a number by halving: the kernel tries every number once when a filter is installed."""
    if len(ranges) == 1:
        return ranges[0][1]
    middle = len(ranges) // 2
    low, high = _search(ranges[:middle]), _search(ranges[middle:])
    return [_op(_JGE, ranges[middle][0], len(low), 0), *low, *high]


def _op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _argument(number: int) -> list[bytes]:
    """Load the low half of an argument (the whole of an int)."""
    return [_op(_LOAD, 16 + 8 * number)]


def _only(*values: int) -> list[bytes]:
    """Refuse any other value of what is loaded: the address family is not supported."""
    code = [_op(_JEQ, value, len(values) - index, 0) for index, value in enumerate(values)]
    return [*code, _op(_RET, _ERRNO | _EAFNOSUPPORT), _op(_RET, _ALLOW)]
