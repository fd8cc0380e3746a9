"""Evaluates an agent: tasks × samples, each episode stored before it is counted, resumable at any moment."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from turngym.agents.description import description
from turngym.agents.driver import EnvDriver
from turngym.agents.group_rewards import group_rewards_of, paid_batches
from turngym.agents.limits import Limits
from turngym.agents.protocols import Agent, NoiseKey
from turngym.agents.runner import EpisodeRequest, Finished, MakeEnv, episode_seed, run_batches
from turngym.agents.specs import make_agent
from turngym.agents.sync import synchronous
from turngym.envs import Reward, Task, TaskSet, make
from turngym.evaluation.database import explained
from turngym.evaluation.errors import RunExists, RunMismatch
from turngym.evaluation.progress import EvalProgress, ProgressCallback, progress_bar
from turngym.evaluation.records import EpisodeSummary, summarise
from turngym.evaluation.report import EvalReport, Tally, config_key, report_key
from turngym.evaluation.selection import count_tasks, select_tasks
from turngym.evaluation.store import STORE_NAME, RunStore

_NO_LIMITS = Limits()
_PROGRESS_EVERY_S: Final = 0.1
REPORT_NAME: Final = "report.json"
"""Name of the report within an evaluation's folder."""


async def aevaluate(
    env: str | MakeEnv,
    agent: Agent | str,
    *,
    split: str = "test",
    tasks: int | None = None,
    samples: int = 1,
    task_ids: Sequence[str] | None = None,
    tags: Collection[str] | None = None,
    out: Path | str | None = None,
    store: RunStore | None = None,
    name: str | None = None,
    step: int = 0,
    concurrency: int = 64,
    limits: Limits = _NO_LIMITS,
    retries: int = 2,
    seed: int = 0,
    resume: bool = False,
    progress: bool | ProgressCallback = False,
    env_kwargs: Mapping[str, Any] | None = None,
) -> EvalReport:
    """Play every task `samples` times and report success and reward with 95% intervals.

    Args:
        env: id of the environment, or a function that makes one.
        agent: who plays, or a spec such as "expert" or "hf:PATH".
        split: which tasks.
        tasks: the most tasks; None for all of a sized split.
        samples: episodes of each task; rewards that compare the episodes of a group compare these.
        task_ids: play exactly these tasks of the split.
        tags: play only tasks with one of these tags.
        out: folder for the run store and the report; None keeps nothing.
        store: an open run store to use instead of `out`.
        name: the phase is "eval/<name>"; default: the split.
        step: optimisation step of the policy that is evaluated.
        concurrency: the most episodes at once.
        limits: of each episode.
        retries: fresh attempts after a failure that is not the agent's.
        seed: decides the environment's and the agent's randomness, episode by episode.
        resume: go on with the evaluation that the store holds, if it was started with the same options and by the
            same policy: an agent that describes itself must say the same (sampling, prompt, template, weights).
        progress: True for a bar (if standard error is a terminal), or a function that is told.
        env_kwargs: further arguments of the environment.

    Raises:
        UnknownEnv, UnknownTask, BadSpec: there is no such environment, split, task or agent.
        RunExists: the store holds this evaluation already, and `resume` is False.
        RunMismatch: the store holds an evaluation with other options, or of another policy.
        StoreError: the store failed; what was counted is stored.
    """
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    if out is not None and store is not None:
        raise ValueError("give a folder or an open store, not both")
    make_env = _maker(env, split, env_kwargs or {})
    env_id, task_set, group_rewards = await _look_at(make_env)
    choice: dict[str, Any] = {"limit": tasks, "ids": task_ids, "tags": None if tags is None else sorted(tags)}
    total = count_tasks(task_set, split, **choice) * samples
    if concurrency > total > 0:
        concurrency = total  # no room is made for what will never be played
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(agent, str):
            agent = make_agent(
                agent, env_id, env_kwargs=env_kwargs, max_context=limits.max_tokens, slots=concurrency
            )
            stack.push_async_callback(agent.close)
        if out is not None:
            store = stack.enter_context(RunStore(Path(out) / STORE_NAME))
        evaluation = _Evaluation(store, f"eval/{name or split}", step, samples, total)
        config: dict[str, Any] = {
            "env": env_id,
            "env_kwargs": dict(env_kwargs or {}),
            "agent": agent.name,
            "split": split,
        }
        config |= {"samples": samples, "seed": seed} | choice | dataclasses.asdict(limits)
        evaluation.open(config, agent, resume=resume)
        show = (
            stack.enter_context(progress_bar(f"{env_id} {split}")) if progress is True else progress or None
        )
        requests = evaluation.requests(select_tasks(task_set, split, **choice), env_id, seed)
        played = run_batches(
            make_env, agent, requests, limits=limits, concurrency=concurrency, retries=retries
        )
        batches = paid_batches(played, group_rewards, group_size=evaluation.unplayed_samples, retries=retries)
        await evaluation.consume(await stack.enter_async_context(contextlib.aclosing(batches)), show)
        report = evaluation.report(env_id=env_id, agent=agent.name, split=split, seed=seed, folder=out)
    if out is not None:
        _write(Path(out) / REPORT_NAME, report.model_dump_json(indent=2))
    return report


evaluate = synchronous(aevaluate)


class _Evaluation:
    """One evaluation's place in a store, and its tally."""

    def __init__(self, store: RunStore | None, phase: str, step: int, samples: int, total: int) -> None:
        self._store = store
        self._phase = phase
        self._step = step
        self._samples = samples
        self._total = total
        self._tally = Tally(samples)
        self._done: set[tuple[str, int]] = set()
        self._turns_before = 0
        self._began = perf_counter()

    def open(self, config: dict[str, Any], agent: Agent, *, resume: bool) -> None:
        """Claim the phase and step for this evaluation, or go on with what is stored there."""
        if self._store is None:
            return
        key = config_key(self._phase, self._step)
        config = json.loads(json.dumps(config | {"policy": description(agent)}, default=str))
        stored = self._store.get_meta(key)
        if stored is None:
            self._store.set_meta(key, config)
            return
        if not resume:
            raise RunExists(
                f"{self._store.path} holds an evaluation of {self._phase} already: "
                "resume it (--resume), or choose another folder (--out)"
            )
        if not isinstance(stored, dict):
            raise self._store.damaged(key)
        # Evaluations of before agents described themselves are compared by everything else.
        changes = ", ".join(_changes({"policy": config["policy"]} | stored, config))
        if changes:
            raise RunMismatch(
                f"{self._store.path} holds an evaluation with other options or of another policy ({changes}): "
                "repeat its options to resume it, or choose another folder (--out)"
            )
        self._done = self._store.done(self._phase, self._step)
        for summary in self._store.summaries(self._phase, self._step):
            self._tally.add(summary)
        self._turns_before = self._tally.turns

    def requests(self, tasks: Iterator[Task], env_id: str, seed: int) -> Iterator[EpisodeRequest]:
        """Every episode that is not stored yet, in order."""
        for number, task in enumerate(tasks):
            for sample in range(self._samples):
                if (task.id, sample) not in self._done:
                    # Step 0 in the seeds: a policy meets the same episodes before and after its training.
                    noise = NoiseKey(run_seed=seed, step=0, task=task.id, sample=sample)
                    yield EpisodeRequest(
                        task, episode_seed(seed, 0, task.id, sample), noise, sample, number, env_id
                    )

    def unplayed_samples(self, request: EpisodeRequest) -> int:
        """How many episodes of a request's task this run plays."""
        return sum((request.task.id, sample) not in self._done for sample in range(self._samples))

    async def consume(self, batches: AsyncIterator[list[Finished]], show: ProgressCallback | None) -> None:
        """Store what finishes, then count it (law 13)."""
        shown_at = 0.0
        async for batch in batches:
            for summary in self._commit(batch):
                self._tally.add(summary)
            now = perf_counter()
            if show is not None and now - shown_at >= _PROGRESS_EVERY_S:
                shown_at = now
                show(self._progress())
        if show is not None:
            show(self._progress())

    def report(
        self, *, env_id: str, agent: str, split: str, seed: int, folder: Path | str | None
    ) -> EvalReport:
        """The report, which the store keeps too."""
        report = self._tally.report(
            env_id=env_id,
            agent=agent,
            split=split,
            step=self._step,
            seed=seed,
            new_episodes=self._tally.episodes - len(self._done),
            new_turns=self._tally.turns - self._turns_before,
            wall_s=perf_counter() - self._began,
            folder=None if folder is None else str(folder),
        )
        if self._store is not None:
            self._store.set_meta(report_key(self._phase, self._step), report.model_dump())
        return report

    def _commit(self, batch: list[Finished]) -> list[EpisodeSummary]:
        if self._store is None:
            return [
                summarise(self._phase, self._step, trajectory, group=request.group, tags=request.task.tags)
                for request, trajectory in batch
            ]
        return self._store.add_episodes(
            self._phase,
            self._step,
            [trajectory for _, trajectory in batch],
            groups=[request.group for request, _ in batch],
            tags=[request.task.tags for request, _ in batch],
        )

    def _progress(self) -> EvalProgress:
        tally = self._tally
        return EvalProgress(
            done=tally.episodes,
            total=self._total,
            success=tally.success(),
            turns_per_s=(tally.turns - self._turns_before) / (perf_counter() - self._began),
            failed=tally.episodes - tally.scored,
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """What differs between two configurations, by name."""
    for key in sorted(before.keys() | now.keys()):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changes(old, new, f"{within}{key}.")
        elif old != new:
            yield f"{within}{key} was {old!r} and is {new!r} now"


def _maker(env: str | MakeEnv, split: str, kwargs: Mapping[str, Any]) -> MakeEnv:
    if isinstance(env, str):
        return functools.partial(make, env, split=split, **kwargs)
    return functools.partial(env, **kwargs)


async def _look_at(make_env: MakeEnv) -> tuple[str, TaskSet, tuple[Reward, ...]]:
    """The id, the tasks and the group rewards of an environment."""
    driver = EnvDriver(make_env())
    try:
        return driver.env_id, driver.tasks, group_rewards_of(driver.env)
    finally:
        await driver.close()


def _write(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the whole new one."""
    draft = path.with_name(path.name + ".part")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        raise explained(error, path) from error
