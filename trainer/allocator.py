"""Keeps the memory that tensors leave behind, instead of giving it back to the kernel and asking for it again.

A training step on the CPU frees and allocates the same few blocks over and over; each time the kernel has to clear
their pages. Keeping them made a step of a tiny model 10 to 25% faster on two virtual processors.

Source: the manual page mallopt(3).
"""

from __future__ import annotations

import ctypes
import os
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGEST_BLOCK: Final = 32 << 20  # the most that the C library takes from its heap
_ALWAYS: Final = (1 << 31) - 1
_CHOSEN: Final = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Tell the C library; False where it is not glibc, or where the environment has chosen an allocator's settings.

    It holds for the whole process, whose memory then stays at its peak until it ends.
    """
    if any(name in os.environ for name in _CHOSEN):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)) and bool(mallopt(_M_TRIM_THRESHOLD, _ALWAYS))
