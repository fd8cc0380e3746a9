"""What the C library does with memory that was freed, seen from a process of its own."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, resource, sys
from turngym.trainer.allocator import keep_freed_memory
kept = keep_freed_memory() if sys.argv[1] == "keep" else None
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
libc.free.argtypes = (ctypes.c_void_p,)
libc.malloc.argtypes = (ctypes.c_size_t,)
def step():
    blocks = [libc.malloc(8 << 20) for _ in range(8)]
    for block in blocks: libc.memset(block, 1, 8 << 20)
    for block in blocks: libc.free(block)
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3): step()
before = faults()
for _ in range(10): step()
print(kept, faults() - before)
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


def run(how: str, **env: str) -> tuple[str, int]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], env=clean | env, capture_output=True, text=True, check=True
    )
    kept, count = done.stdout.split()
    return kept, int(count)


def test_pages_are_asked_for_once() -> None:
    (_, usual), (kept, few) = run("usual"), run("keep")
    assert kept == "True"
    assert few < usual / 100


def test_who_has_chosen_an_allocator_keeps_it() -> None:
    assert run("keep", MALLOC_TRIM_THRESHOLD_="131072")[0] == "False"
