"""How fast sandboxes are, side by side in one run, so that ratios mean something on any machine.

Every contender runs `print(1)` from nothing to a closed sandbox, in short rounds that take turns, so that a slow
moment of the machine hits all alike.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from turngym.sandboxes.backends.namespace import system_python
from turngym.sandboxes.docker.config import IMAGE
from turngym.sandboxes.errors import SandboxError
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.protocols import Backend

PROGRAM: Final = ("python3", "-I", "-S", "-c", "print(1)")
"""What every contender runs, without the time that `site` takes on some systems."""
_LIMITS: Final = Limits(wall_s=30, memory_mib=256, processes=32, disk_mib=16)


@dataclass(slots=True)
class Measured:
    """One contender's figures."""

    name: str
    in_flight: int
    """Programs at once."""
    latencies_s: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    """Programs per second, a figure per round."""
    problem: str = ""
    """Why it could not take part."""

    @property
    def rate(self) -> float:
        """Median of the rounds, in programs per second; 0 without rounds."""
        return statistics.median(self.rates) if self.rates else 0.0

    def percentile_ms(self, share: float) -> float:
        """Latency that a share of the programs stayed below; 0 without programs."""
        if not self.latencies_s:
            return 0.0
        ordered = sorted(self.latencies_s)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


Run = Callable[[], Awaitable[None]]


async def measure(contenders: dict[tuple[str, int], Run], *, rounds: int, per_round: int) -> list[Measured]:
    """Let contenders take turns.

    Args:
        contenders: what each runs once, by name and number in flight.
        rounds: of each.
        per_round: programs in a round.
    """
    found = [Measured(name, in_flight) for name, in_flight in contenders]
    for number in range(rounds + 1):  # the first warms up and does not count
        for figures, run in zip(found, contenders.values(), strict=True):
            if figures.problem:
                continue
            try:
                await _round(
                    figures, run, per_round if number else max(2, per_round // 10), counts=number > 0
                )
            except SandboxError as error:
                figures.problem = str(error)
    return found


def one_program(backend: Backend) -> Run:
    """From nothing to a closed sandbox."""

    async def run() -> None:
        async with await backend.create(_LIMITS) as sandbox:
            result = await sandbox.exec(PROGRAM)
        if result.stdout != b"1\n":
            raise SandboxError(f"print(1) gave {result}")

    return run


async def repeated_exec(backend: Backend) -> tuple[Run, Callable[[], Awaitable[None]]]:
    """A program after the other in one sandbox; with it, how to close that."""
    sandbox = await backend.create(_LIMITS)

    async def run() -> None:
        result = await sandbox.exec(PROGRAM)
        if result.stdout != b"1\n":
            raise SandboxError(f"print(1) gave {result}")

    return run, sandbox.close


async def session_call(backend: Backend) -> tuple[Run, Callable[[], Awaitable[None]]]:
    """A call of a stateful interpreter; with it, how to close its sandbox."""
    sandbox = await backend.create(_LIMITS)
    session = await sandbox.session()

    async def run() -> None:
        result = await session.run("1")
        if result.value != "1":
            raise SandboxError(f"a session call gave {result}")

    return run, sandbox.close


async def plain_subprocess() -> None:
    """The usual way without any isolation."""
    await _spawn(system_python(), *PROGRAM[1:])


async def raw_bubblewrap() -> None:
    """bubblewrap alone, with the namespaces that ours has, and no supervisor, filter or limits."""
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("bubblewrap is not installed")
    arguments = [
        "--unshare-all",
        "--ro-bind",
        "/usr",
        "/usr",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]
    for name in ("bin", "lib", "lib64"):
        arguments += ["--symlink", f"usr/{name}", f"/{name}"]
    arguments += ["--die-with-parent", "--new-session", "--clearenv", "--", system_python()]
    await _spawn(program, *arguments, *PROGRAM[1:])


async def docker_exec() -> tuple[Run, Callable[[], Awaitable[None]]]:
    """The usual way to run a program in a container that is there already; with it, how to remove that.

    Raises:
        SandboxError: there is no docker command, engine or image.
    """
    if shutil.which("docker") is None:
        raise SandboxError("there is no docker command")
    sleep = ("python3", "-c", "import time; time.sleep(3600)")
    name = (await _output("docker", "run", "-d", "--rm", "--network", "none", IMAGE, *sleep)).decode().strip()

    async def run() -> None:
        await _spawn("docker", "exec", name, *PROGRAM)

    async def close() -> None:
        await _output("docker", "rm", "-f", name)

    return run, close


async def _spawn(*argv: str) -> None:
    stdout = await _output(*argv)
    if stdout != b"1\n":
        raise SandboxError(f"{argv[0]} gave {stdout!r}")


async def _output(*argv: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await process.communicate()
    if process.returncode:
        raise SandboxError(f"{argv[0]} failed: {stderr.decode('utf-8', 'replace').strip()[-300:]}")
    return stdout


async def _round(figures: Measured, run: Run, count: int, *, counts: bool) -> None:
    left = count

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            began = perf_counter()
            await run()
            if counts:
                figures.latencies_s.append(perf_counter() - began)

    began = perf_counter()
    await asyncio.gather(*(worker() for _ in range(figures.in_flight)))
    if counts:
        figures.rates.append(count / (perf_counter() - began))
