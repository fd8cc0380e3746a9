"""Sandboxes: programs per second side by side, and whether anything is left after very many of them.

    python benchmarks/sandboxes.py [--rounds N] [--per-round N] [--soak N]

Bars (2 cores): warm namespaces ≥ 500/s at 2 to 4 in flight, p99 < 15 ms at 2, ≥ 3 × one-shot, ≥ 1.5 × plain subprocess;
one-shot ≥ 0.55 × bubblewrap alone; a session call ≥ 1,500/s; 100,000 programs without growth.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from turngym.sandboxes import bench, open_backend
from turngym.sandboxes.protocols import Backend


@dataclass(frozen=True)
class Census:
    """What there is on the machine that a sandbox could leave behind."""

    processes: int
    descriptors: int
    mounts: int
    groups: int
    temporary: int
    memory_mib: float

    @classmethod
    def take(cls) -> Census:
        """Count now."""
        return cls(
            processes=sum(name.isdigit() for name in os.listdir("/proc")),
            descriptors=len(os.listdir("/proc/self/fd")),
            mounts=len(Path("/proc/self/mounts").read_text().splitlines()),
            groups=sum(1 for _ in Path("/sys/fs/cgroup").rglob("turngym-*")),
            temporary=len(os.listdir("/tmp")),
            memory_mib=_resident_mib(os.getpid()) + sum(map(_resident_mib, _descendants(os.getpid()))),
        )


async def soak(backend: Backend, count: int, in_flight: int = 4) -> tuple[Census, Census, float]:
    """Census after a start of 200 programs, census after `count` more, and programs per second."""
    run = bench.one_program(backend)
    for _ in range(200):
        await run()
    await asyncio.gather(*(run() for _ in range(in_flight)))
    before = Census.take()
    left = count
    began = perf_counter()

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await run()

    await asyncio.gather(*(worker() for _ in range(in_flight)))
    rate = count / (perf_counter() - began)
    return before, Census.take(), rate


def main() -> int:
    """Print the table and the censuses; 1 if something was left."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--per-round", type=int, default=200)
    parser.add_argument("--soak", type=int, default=100_000)
    options = parser.parse_args()
    command = [sys.executable, "-m", "turngym", "sandbox", "bench", "--rounds", str(options.rounds)]
    subprocess.run([*command, "--per-round", str(options.per_round)], check=True)

    async def run() -> int:
        backend = open_backend("namespace")
        try:
            before, after, rate = await soak(backend, options.soak)
        finally:
            await backend.close()
        print(f"\n{options.soak:,} programs through the warm namespaces at {rate:,.0f}/s")
        print(f"  before {before}\n  after  {after}")
        grown = [
            name
            for name in ("processes", "descriptors", "mounts", "groups", "temporary")
            if getattr(after, name) > getattr(before, name) + 2
        ]
        if after.memory_mib > before.memory_mib + 16:
            grown.append("memory_mib")
        print("  nothing has grown" if not grown else f"  GROWN: {', '.join(grown)}")
        return int(bool(grown))

    return asyncio.run(run())


def _descendants(top: int) -> list[int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()
            except OSError:
                continue
            parents[int(name)] = int(fields[1])
    found = {top}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found - {top})
        found |= more


def _resident_mib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0


if __name__ == "__main__":
    sys.exit(main())
