"""Checks that environments keep to themselves: side by side, in another process, and after they are closed."""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from turngym.envs.checks.probe import Played, Probe, require
from turngym.envs.env import Env, StepResult
from turngym.envs.tasks import Task
from turngym.sandboxes import async_bridge

_ROUNDS: Final = 4
"""Environments that are opened and closed while things are counted. What one leaves behind, four leave fourfold; a
service that they share is there once."""
_SETTLE_S: Final = 5.0
"""How long something may take to be gone after `close`."""


def side_by_side(probe: Probe) -> str:
    """Episodes in environments of their own, step by step in turn and awaited at once, go as they go alone."""
    if probe.nondeterministic:
        return "declared nondeterministic"
    policies = [policy for policy in (probe.expert(), probe.policy("random")) if policy is not None]
    alone: list[tuple[Task, Played]] = []
    for task in probe.few(2):
        for policy in policies:
            with closing(probe.make()) as env:
                alone.append((task, probe.play(env, policy, task)))
    _same(alone, _in_turn(probe, alone), "step by step in turn")
    _same(alone, async_bridge.run(_at_once(probe, alone)), "awaited at once")
    return f"{len(alone)} environments, in turn and at once"


def _in_turn(probe: Probe, episodes: list[tuple[Task, Played]]) -> list[Played]:
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(probe.make())) for _ in episodes]
        openings = [
            env.reset(seed=probe.seed, options={"task": task})
            for env, (task, _) in zip(envs, episodes, strict=True)
        ]
        results: list[list[StepResult]] = [[] for _ in episodes]
        for step in range(max(len(played.actions) for _, played in episodes)):
            for env, (_, played), own in zip(envs, episodes, results, strict=True):
                if step < len(played.actions):
                    own.append(env.step(played.actions[step]))
    return [
        Played(opening, played.actions, tuple(own))
        for opening, (_, played), own in zip(openings, episodes, results, strict=True)
    ]


async def _at_once(probe: Probe, episodes: list[tuple[Task, Played]]) -> list[Played]:
    async def one(task: Task, played: Played) -> Played:
        env = probe.make()
        try:
            opening = await env.areset(seed=probe.seed, options={"task": task})
            results = []
            for action in played.actions:
                await asyncio.sleep(0)
                results.append(await env.astep(action))
        finally:
            await env.aclose()
        return Played(opening, played.actions, tuple(results))

    return list(await asyncio.gather(*(one(task, played) for task, played in episodes)))


def _same(alone: list[tuple[Task, Played]], together: list[Played], how: str) -> None:
    for (task, expected), got in zip(alone, together, strict=True):
        require(
            (expected.opening, expected.results) == (got.opening, got.results),
            f"task {task.id} goes another way beside other episodes, {how}",
        )


def pickling(probe: Probe) -> str:
    """A copy that went through pickle goes on like the original; or pickle is refused, which says why."""
    if probe.nondeterministic:
        return "declared nondeterministic"
    with closing(probe.make()) as env:
        task = probe.tasks()[0]
        played = probe.play(env, probe.policy("random"), task)
        half = len(played.actions) // 2
        probe.replay(env, task, played.actions[:half])
        try:
            data = pickle.dumps(env)
        except (
            TypeError,
            AttributeError,
            pickle.PicklingError,
        ) as error:  # what pickle and authors refuse with
            require(bool(str(error)), f"pickling is refused by {type(error).__name__} without a reason")
            _goes_on(env, task, played, half, "the original, after pickling was refused,")
            return f"refused: {error}"
        with closing(pickle.loads(data)) as twin:
            _goes_on(twin, task, played, half, "the pickled copy")
        _goes_on(env, task, played, half, "the original, once pickled,")
    return f"{len(data):,} bytes in mid-episode"


def _goes_on(env: Env, task: Task, played: Played, step: int, who: str) -> None:
    got = tuple(env.step(action) for action in played.actions[step:])
    require(got == played.results[step:], f"task {task.id}: {who} goes another way")


def nothing_left_behind(probe: Probe) -> str:
    """Threads, child processes, open files and temporary files are as many as before, once all are closed."""
    _use(probe)  # services that all environments of a process share are started by the first
    gc.collect()
    before = _census()
    with _own_temporary_folder() as folder:
        for _ in range(_ROUNDS):
            _use(probe)
        deadline = time.monotonic() + _SETTLE_S
        while (left := _growth(before, folder)) and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.02)
    require(not left, f"after {_ROUNDS} environments were closed there are {left}")
    return f"{_ROUNDS} environments, played and closed in mid-episode"


def _use(probe: Probe) -> None:
    """A whole episode, then the beginning of another, and close."""
    with closing(probe.make()) as env:
        task = probe.tasks()[0]
        probe.play(env, probe.expert() or probe.policy("random"), task)
        probe.play(env, probe.policy("random"), task, most=1)


def _growth(before: dict[str, int], folder: Path) -> str:
    """What there is more of, by at least one for each environment."""
    now = _census() | {"temporary files": len(list(folder.iterdir()))}
    more = {what: count - before.get(what, 0) for what, count in now.items()}
    return ", ".join(f"{count} more {what}" for what, count in more.items() if count >= _ROUNDS)


def _census() -> dict[str, int]:
    found = {"threads": threading.active_count()}
    if Path("/proc/self/fd").is_dir():
        found |= {"open files": len(os.listdir("/proc/self/fd")), "processes": len(_descendants())}
    return found


def _descendants() -> set[int]:
    """Process ids of our children, theirs, and so on."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                stat = Path("/proc", entry, "stat").read_text(errors="replace")
                parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    """A folder that nobody else uses, in which `tempfile` and children put what they make."""
    before, before_env = tempfile.tempdir, os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="turngym-check-", ignore_cleanup_errors=True) as name:
        tempfile.tempdir = os.environ["TMPDIR"] = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = before
            if before_env is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before_env
