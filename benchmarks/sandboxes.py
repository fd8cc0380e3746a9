"""Sandboxes: programs per second side by side, and whether anything is left after very many of them.

    python benchmarks/sandboxes.py [--rounds N] [--per-round N] [--soak N] [--docker-soak N]

Bars (2 cores): warm namespaces ≥ 500/s at 2 to 4 in flight, p99 < 15 ms at 2, ≥ 3 × one-shot, ≥ 1.5 × plain subprocess;
one-shot ≥ 0.55 × bubblewrap alone; a session call ≥ 1,500/s; 100,000 programs through namespaces and 10,000 through
docker without growth.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter

from turngym.sandboxes import bench, open_backend
from turngym.sandboxes.errors import SandboxUnavailable
from turngym.sandboxes.protocols import Backend

_GROWTH = 2
"""What others on the machine may add to a count meanwhile."""
_GROWTH_MIB = 16


@dataclass(frozen=True)
class Census:
    """What there is on the machine that a sandbox could leave behind."""

    processes: int
    descriptors: int
    mounts: int
    groups: int
    temporary: int
    containers: int
    memory_mib: float
    """Of this process and its helpers."""

    @classmethod
    def take(cls) -> Census:
        """Count now."""
        return cls(
            processes=sum(map(_is_process, os.listdir("/proc"))),
            descriptors=len(os.listdir("/proc/self/fd")),
            mounts=len(Path("/proc/self/mounts").read_text().splitlines()),
            groups=sum(1 for _ in Path("/sys/fs/cgroup").rglob("turngym-*")),
            temporary=len(os.listdir("/tmp")),
            containers=_containers(),
            memory_mib=_resident_mib(os.getpid()) + sum(map(_resident_mib, _descendants(os.getpid()))),
        )


async def soak(
    backend: Backend, count: int, per_sandbox: int, in_flight: int
) -> tuple[Census, Census, float]:
    """Census after a start, census after `count` programs more, and programs per second.

    The start makes 200 sandboxes, after which slots, threads and idle connections are as many as they get.
    """

    async def run() -> None:
        async with await backend.create() as sandbox:
            for _ in range(per_sandbox):
                result = await sandbox.exec(bench.PROGRAM)
                if result.stdout != b"1\n":
                    raise SystemExit(f"print(1) gave {result}")

    async def run_all(count: int) -> None:
        left = count

        async def worker() -> None:
            nonlocal left
            while left > 0:
                left -= per_sandbox
                await run()

        await asyncio.gather(*(worker() for _ in range(in_flight)))

    await run_all(200 * per_sandbox)
    before = Census.take()
    began = perf_counter()
    await run_all(count)
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
    parser.add_argument("--docker-soak", type=int, default=10_000)
    options = parser.parse_args()
    if options.rounds:
        command = [sys.executable, "-m", "turngym", "sandbox", "bench", "--rounds", str(options.rounds)]
        subprocess.run([*command, "--per-round", str(options.per_round)], check=True)

    grown = [
        asyncio.run(_soak_and_tell("namespace", options.soak, per_sandbox=1, in_flight=4)),
        # As many at once as the backend has threads, each of which keeps some idle connections to the engine.
        asyncio.run(_soak_and_tell("docker", options.docker_soak, per_sandbox=50, in_flight=8)),
    ]
    return int(any(grown))


async def _soak_and_tell(name: str, count: int, *, per_sandbox: int, in_flight: int) -> bool:
    """True if something has grown."""
    if not count:
        return False
    backend = open_backend(name)
    try:
        before, after, rate = await soak(backend, count, per_sandbox, in_flight)
    except SandboxUnavailable as error:
        print(f"\n{name}: {error}")
        return False
    finally:
        await backend.close()
    print(f"\n{count:,} programs through {name}, {per_sandbox} a sandbox, at {rate:,.0f}/s")
    print(f"  before {before}\n  after  {after}")
    grown = [
        field.name
        for field in fields(Census)
        if getattr(after, field.name)
        > getattr(before, field.name) + (_GROWTH_MIB if field.name == "memory_mib" else _GROWTH)
    ]
    print("  nothing has grown" if not grown else f"  GROWN: {', '.join(grown)}")
    return bool(grown)


def _is_process(name: str) -> bool:
    """Whether a name in /proc is a process, and not the kernel's own: those come and go with its work."""
    try:
        return name.isdigit() and Path("/proc", name, "statm").read_text().split()[0] != "0"
    except OSError:  # it has just ended
        return False


def _containers() -> int:
    """Containers of the engine, running or not; 0 without one."""
    if shutil.which("docker") is None:
        return 0
    done = subprocess.run(["docker", "ps", "-aq"], capture_output=True, check=False)
    return len(done.stdout.splitlines())


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
