"""What turngym itself costs, with an agent that answers at once.

    python benchmarks/overhead.py [--envs turngym/Retail-v0 …] [--episodes 50000] [--runs 5] [--profile]

Prints for each environment, in medians: bare `env.step` per second; turns per second of `evaluate` with everything
that a real run has (64 episodes at once, records, intervals, the run store on disk); and how much the memory of the
process grows from the first tenth of `--episodes` to the last.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import psutil

from turngym.agents.protocols import EpisodeStart
from turngym.agents.simple import ScriptedAgent
from turngym.agents.types import Action
from turngym.envs import make, reference_policy
from turngym.envs.messages import Message
from turngym.evaluation.progress import EvalProgress
from turngym.evaluation.runner import evaluate

ENVS = ("turngym/Calculator-v0", "turngym/Retail-v0")
SPLIT = "train"
TASKS = 1000


def expert_replies(env_id: str, tasks: int) -> dict[str, list[Message]]:
    """The expert's replies to the first tasks, so that replaying them costs nothing."""
    env = make(env_id, split=SPLIT)
    expert = reference_policy(env_id, "expert")
    rng = np.random.default_rng(0)
    replies: dict[str, list[Message]] = {}
    for index in range(tasks):
        task = env.tasks.at(SPLIT, index)
        observation, _ = env.reset(seed=0, options={"task": task})
        history, said, over = list(observation), [], False
        while not over:
            said.append(expert(task, history, rng))
            observation, _, terminated, truncated, _ = env.step(said[-1])
            history += [said[-1], *observation]
            over = terminated or truncated
        replies[task.id] = said
    return replies


def steps_per_second(env_id: str, replies: dict[str, list[Message]]) -> float:
    """Bare `env.step`: resets are not timed."""
    env = make(env_id, split=SPLIT)
    steps, seconds = 0, 0.0
    for task_id, said in replies.items():
        env.reset(seed=0, options={"task": task_id})
        began = perf_counter()
        for message in said:
            env.step(message)
        seconds += perf_counter() - began
        steps += len(said)
    return steps / seconds


def turns_per_second(
    env_id: str, agent: ScriptedAgent, episodes: int, memory: list[tuple[int, int]] | None = None
) -> float:
    """`evaluate` with a run store; (episodes done, bytes resident) go to `memory` as it runs."""
    process = psutil.Process()

    def watch(now: EvalProgress) -> None:
        if memory is not None:
            memory.append((now.done, process.memory_info().rss))

    with tempfile.TemporaryDirectory() as folder:
        report = evaluate(
            env_id,
            agent,
            split=SPLIT,
            tasks=TASKS,
            samples=max(episodes // TASKS, 1),
            out=Path(folder),
            progress=watch,
        )
    if report.success is None or report.success.mean != 1.0:
        raise SystemExit(f"the expert's replies should always succeed:\n{report}")
    return report.turns_per_s


def growth_mib(memory: Sequence[tuple[int, int]], episodes: int) -> float:
    """MiB that the process grew from the first tenth of the episodes to the end."""
    early = next(resident for done, resident in memory if done >= episodes // 10)
    return (memory[-1][1] - early) / 2**20


def replaying_agent(env_id: str) -> tuple[ScriptedAgent, dict[str, list[Message]]]:
    """An instant agent that repeats the expert's replies, and these."""
    replies = expert_replies(env_id, TASKS)
    actions = {task_id: [Action(message) for message in said] for task_id, said in replies.items()}

    def script(episode: EpisodeStart) -> list[Action]:
        return actions[episode.noise.task]

    return ScriptedAgent(script, name="replay"), replies


def figures_of(env_id: str, options: argparse.Namespace) -> dict[str, float]:
    """All figures of an environment."""
    agent, replies = replaying_agent(env_id)
    memory: list[tuple[int, int]] = []
    runs = range(options.runs)
    return {
        "env_steps_per_s": median(steps_per_second(env_id, replies) for _ in runs),
        "turns_per_s": median(turns_per_second(env_id, agent, options.run_episodes) for _ in runs),
        "long_run_turns_per_s": turns_per_second(env_id, agent, options.episodes, memory),
        "rss_growth_mib": growth_mib(memory, options.episodes),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Overhead of turngym with an instant agent.")
    parser.add_argument("--envs", nargs="+", default=ENVS, help=f"environments (default {' '.join(ENVS)})")
    parser.add_argument(
        "--episodes", type=int, default=50_000, help="episodes of the memory test (default 50000)"
    )
    parser.add_argument(
        "--run-episodes", type=int, default=10_000, help="episodes of each timed run (default 10000)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs that the medians are over (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON: figures by environment")
    parser.add_argument("--profile", action="store_true", help="profile one run of each instead of measuring")
    options = parser.parse_args()
    if options.profile:
        for env_id in options.envs:
            profile = cProfile.Profile()
            profile.runcall(turns_per_second, env_id, replaying_agent(env_id)[0], options.run_episodes)
            print(env_id)
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return
    figures = {env_id: figures_of(env_id, options) for env_id in options.envs}
    if options.json:
        print(json.dumps(figures))
        return
    for env_id, found in figures.items():
        print(env_id)
        print(f"  bare env.step        {found['env_steps_per_s']:>10,.0f} /s   (median of {options.runs})")
        print(
            f"  turns, everything on {found['turns_per_s']:>10,.0f} /s   "
            f"(median of {options.runs}; 64 at once, run store)"
        )
        print(f"  {options.episodes:,} episodes      {found['long_run_turns_per_s']:>10,.0f} turns/s")
        print(f"  memory growth        {found['rss_growth_mib']:>10.1f} MiB from the first tenth to the end")


if __name__ == "__main__":
    main()
