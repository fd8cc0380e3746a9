"""The filter is checked by running it: an interpreter of the few instructions that it uses, against plain rules."""

import struct

import pytest

from turngym.sandboxes.inside import seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS, EAFNOSUPPORT = 0x00050001, 0x00050026, 0x00050061
X86, ARM = 0xC000003E, 0xC00000B7


def verdict(program: bytes, arch: int, number: int, *args: int) -> int:
    data = struct.pack("=iIQ6Q", number, arch, 0, *(args + (0,) * (6 - len(args))))
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        op, yes, no, value = code[at]
        at += 1
        if op == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif op == 0x15:
            at += yes if accumulator == value else no
        elif op == 0x35:
            at += yes if accumulator >= value else no
        elif op == 0x45:
            at += yes if accumulator & value else no
        elif op == 0x06:
            return value
        else:
            raise AssertionError(f"unknown instruction {op:#x}")


FILTER = seccomp.program("x86_64")


@pytest.mark.parametrize("number", [0, 1, 2, 3, 9, 57, 59, 39, 186, 202, 257, 318, 334])
def test_what_programs_use_is_allowed(number):
    assert verdict(FILTER, X86, number) == ALLOW


@pytest.mark.parametrize(
    "number",
    [101, 310, 311, 425, 426, 427, 321, 250, 323, 298, 165, 166, 155, 161, 428, 430, 442, 308, 438, 175, 169],
)
def test_what_escapes_use_is_refused(number):
    assert verdict(FILTER, X86, number) == EPERM


def test_other_processors_and_x32_are_killed():
    assert verdict(FILTER, ARM, 0) == KILL
    assert verdict(FILTER, 0x40000003, 1) == KILL
    assert verdict(FILTER, X86, 0x40000000 + 59) == KILL


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_new_namespaces_are_refused_and_threads_are_not(flag):
    assert verdict(FILTER, X86, 56, flag | 17) == EPERM
    assert verdict(FILTER, X86, 272, flag) == EPERM
    assert verdict(FILTER, X86, 56, 0x3D0F00) == ALLOW  # what pthread_create asks for
    assert verdict(FILTER, X86, 56, 17) == ALLOW
    assert verdict(FILTER, X86, 272, 0x400) == ALLOW  # CLONE_FILES
    assert verdict(FILTER, X86, 272, 0x80) == EPERM  # CLONE_NEWTIME
    assert verdict(FILTER, X86, 435, 0) == ENOSYS


@pytest.mark.parametrize(
    ("family", "wanted"),
    [(1, ALLOW), (2, ALLOW), (10, ALLOW)] + [(n, EAFNOSUPPORT) for n in (0, 16, 17, 38, 40, 44)],
)
def test_sockets_of_three_families(family, wanted):
    assert verdict(FILTER, X86, 41, family) == wanted


def test_pairs_limits_and_terminals():
    assert verdict(FILTER, X86, 53, 1) == ALLOW
    assert verdict(FILTER, X86, 53, 2) == EAFNOSUPPORT
    assert verdict(FILTER, X86, 302, 0) == ALLOW
    assert verdict(FILTER, X86, 302, 1) == EPERM
    assert verdict(FILTER, X86, 16, 1, 0x5412) == EPERM
    assert verdict(FILTER, X86, 16, 1, 0x5413) == ALLOW


def test_memory_files_are_refused_where_nothing_bounds_them():
    assert verdict(FILTER, X86, 319) == ALLOW
    assert verdict(seccomp.program("x86_64", memfd=False), X86, 319) == ENOSYS


def test_the_other_processor():
    program = seccomp.program("aarch64")
    assert verdict(program, ARM, 117) == EPERM
    assert verdict(program, ARM, 220, 0x10000000) == EPERM
    assert verdict(program, ARM, 198, 40) == EAFNOSUPPORT
    assert verdict(program, ARM, 63) == ALLOW
    assert verdict(program, X86, 0) == KILL
    assert not seccomp.supported("riscv64")
