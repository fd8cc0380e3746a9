"""What turngym itself costs, with an agent that answers at once.

    python benchmarks/overhead.py [--episodes 50000] [--runs 5] [--profile]

Prints medians: bare `env.step` per second; turns per second of `evaluate` with everything that a real run
has (64 episodes at once, records, intervals, the run store on disk); and how much the memory of the process
grows from the first tenth of `--episodes` to the last.
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

ENV_ID = "turngym/Calculator-v0"
SPLIT = "train"
TASKS = 1000


def expert_replies(tasks: int) -> dict[str, list[Message]]:
    """The expert's replies to the first tasks, so that replaying them costs nothing."""
    env = make(ENV_ID, split=SPLIT)
    expert = reference_policy(ENV_ID, "expert")
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


def steps_per_second(replies: dict[str, list[Message]]) -> float:
    """Bare `env.step`: resets are not timed."""
    env = make(ENV_ID, split=SPLIT)
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
    agent: ScriptedAgent, episodes: int, memory: list[tuple[int, int]] | None = None
) -> float:
    """`evaluate` with a run store; (episodes done, bytes resident) go to `memory` as it runs."""
    process = psutil.Process()

    def watch(now: EvalProgress) -> None:
        if memory is not None:
            memory.append((now.done, process.memory_info().rss))

    with tempfile.TemporaryDirectory() as folder:
        report = evaluate(
            ENV_ID,
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Overhead of turngym with an instant agent.")
    parser.add_argument(
        "--episodes", type=int, default=50_000, help="episodes of the memory test (default 50000)"
    )
    parser.add_argument(
        "--run-episodes", type=int, default=10_000, help="episodes of each timed run (default 10000)"
    )
    parser.add_argument("--runs", type=int, default=5, help="runs that the medians are over (default 5)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--profile", action="store_true", help="profile one run instead of measuring")
    options = parser.parse_args()
    replies = expert_replies(TASKS)
    actions = {task_id: [Action(message) for message in said] for task_id, said in replies.items()}

    def script(episode: EpisodeStart) -> list[Action]:
        return actions[episode.noise.task]

    agent = ScriptedAgent(script, name="replay")
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(turns_per_second, agent, options.run_episodes)
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)
        return
    memory: list[tuple[int, int]] = []
    figures = {
        "env_steps_per_s": median(steps_per_second(replies) for _ in range(options.runs)),
        "turns_per_s": median(turns_per_second(agent, options.run_episodes) for _ in range(options.runs)),
        "long_run_turns_per_s": turns_per_second(agent, options.episodes, memory),
        "rss_growth_mib": growth_mib(memory, options.episodes),
    }
    if options.json:
        print(json.dumps(figures))
        return
    print(f"bare env.step        {figures['env_steps_per_s']:>10,.0f} /s   (median of {options.runs})")
    print(
        f"turns, everything on {figures['turns_per_s']:>10,.0f} /s   "
        f"(median of {options.runs}; 64 at once, run store)"
    )
    print(f"{options.episodes:,} episodes      {figures['long_run_turns_per_s']:>10,.0f} turns/s")
    print(f"memory growth        {figures['rss_growth_mib']:>10.1f} MiB from the first tenth to the end")


if __name__ == "__main__":
    main()
