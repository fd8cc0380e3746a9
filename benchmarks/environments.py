"""Every registered environment, played a lot: the expert on test tasks drawn at random, and random play.

    python benchmarks/environments.py [--experts 200] [--random 10000] [--only turngym/Retail-v0 …] [--markdown FILE]

A row says how many of the expert's episodes succeeded (of an environment whose luck decides too: its mean reward),
how many random episodes ended in an exception, how many turns a second that was, and which processes were left. Exit
code 1 if an exception, a process, or a failure of the expert was seen.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import numpy as np
import psutil

from turngym.agents.limits import Limits
from turngym.envs import list_envs, make
from turngym.evaluation.report import EvalReport
from turngym.evaluation.runner import evaluate
from turngym.sandboxes.service import close_services

CONCURRENCY = 16
_UNCUT = Limits(max_turns=1000)
_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Row:
    """What was seen of one environment."""

    env_id: str
    expert: EvalReport
    random: EvalReport
    processes: tuple[str, ...]
    """Processes that were there afterwards and not before."""

    @property
    def problem(self) -> str:
        """What is wrong; empty if nothing is."""
        if self.expert.failed or self.random.failed:
            errors = {**self.expert.errors, **self.random.errors}
            return f"failed episodes: {next(iter(errors), '')}"
        if self.processes:
            return f"processes are left: {', '.join(self.processes)}"
        success = self.expert.success
        is_sure = success is None or success.mean == 1.0 or getattr(make(self.env_id), "is_stochastic", False)
        return "" if is_sure else f"the expert succeeds in {success.mean:.4f} only"

    def markdown(self) -> str:
        """One line of a table."""
        success, reward = self.expert.success, self.expert.reward
        cells = [
            self.env_id,
            f"{self.expert.episodes}",
            "" if success is None else f"{success.mean:.3f}",
            "" if reward is None else f"{reward.mean:.3f}",
            f"{self.random.episodes:,}",
            f"{sum(self.random.failed.values())}",
            f"{self.random.turns_per_s:,.0f}",
            f"{len(self.processes)}",
        ]
        return f"| {' | '.join(cells)} |"


HEADER = (
    "| environment | expert episodes | success | reward | random episodes | exceptions | turns/s | processes left |\n"
    "|---|---|---|---|---|---|---|---|"
)


def play_a_lot(env_id: str, *, experts: int, random: int, seed: int = 0) -> Row:
    """The expert on `experts` random test tasks, then `random` episodes of random play."""
    before = _processes()
    with_env = make(env_id)
    split = "test" if "test" in with_env.tasks.splits else with_env.tasks.splits[0]
    size = with_env.tasks.size(split)
    ids = _task_ids(with_env.tasks, split, size, experts, seed)
    with_env.close()
    common = {"split": split, "concurrency": CONCURRENCY, "seed": seed, "retries": 0, "limits": _UNCUT}
    expert = evaluate(env_id, "expert", task_ids=ids, samples=-(-experts // len(ids)), **common)
    count = min(random, size if size is not None else random)
    played = evaluate(env_id, "random", tasks=count, samples=-(-random // count), **common)
    close_services()
    return Row(env_id, expert, played, _left_over(before))


def _task_ids(tasks, split: str, size: int | None, count: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    most = size if size is not None else 10**6
    places = rng.choice(most, size=min(count, most), replace=False)
    return [tasks.at(split, int(place)).id for place in places]


def _processes() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def _left_over(before: set[int]) -> tuple[str, ...]:
    """Names of the processes that do not end within a few seconds."""
    for _ in range(int(_GRACE_S * 10)):
        if not _processes() - before:
            return ()
        sleep(0.1)
    left = [child for child in psutil.Process().children(recursive=True) if child.pid not in before]
    return tuple(" ".join(child.cmdline())[:80] or child.name() for child in left)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--experts", type=int, default=200)
    parser.add_argument("--random", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--markdown", type=Path, default=None)
    chosen = parser.parse_args(arguments)
    rows, bad = [], 0
    print(HEADER, flush=True)
    for listing in list_envs():
        if chosen.only is not None and listing.id not in chosen.only:
            continue
        if listing.problem:
            print(f"{listing.id}: {listing.problem}", flush=True)
            bad += 1
            continue
        row = play_a_lot(listing.id, experts=chosen.experts, random=chosen.random)
        rows.append(row.markdown())
        print(rows[-1], flush=True)
        if row.problem:
            bad += 1
            print(f"{row.env_id}: {row.problem}", flush=True)
    if chosen.markdown is not None:
        chosen.markdown.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
