"""The warm start of a run: a reference policy of the environment plays, and the model imitates it.

An interruption on the way loses nothing: what was played is in the run store, and what was learned is saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Final

from turngym.agents.runner import EpisodeRequest, MakeEnv
from turngym.agents.types import Trajectory
from turngym.trainer.collect import TaskOrder, collect, group_requests
from turngym.trainer.errors import HealthError
from turngym.trainer.preflight import teacher_policy
from turngym.trainer.progress import Progress
from turngym.trainer.run import Run
from turngym.trainer.sft import imitate, sft_optimiser
from turngym.trainer.stopping import Stopped, StopRequest
from turngym.trainer.teacher import TeacherAgent
from turngym.trainer.tracking import Trackers

PHASE: Final = "sft"
"""Phase of its episodes and figures in the run store."""

SAVE_EVERY_S: Final = 60.0
"""Seconds between saves while it goes on."""


async def warm_start(
    run: Run,
    order: TaskOrder,
    make_env: MakeEnv,
    *,
    trackers: Trackers,
    progress: Progress,
    stop: StopRequest,
) -> None:
    """Imitate the reference policy that the configuration names, then save: training begins there.

    Raises:
        Stopped: somebody asked the run to end; it was saved.
        HealthError: not one of the policy's episodes can be imitated, or the loss is not finite.
    """
    sft, optim = run.config.sft, run.config.optim
    if run.warm or sft is None:
        return
    requests = list(
        group_requests(
            order,
            env_id=run.config.env.id,
            seed=run.config.seed,
            step=0,
            position=0,
            groups=sft.episodes,
            group_size=1,
        )
    )
    trajectories = await stop.unless_made(_played(run, requests, make_env, progress))
    optimiser = sft_optimiser(run.loaded.model, sft, optim)
    if run.warm_optimiser is not None:
        optimiser.load_state_dict(run.warm_optimiser)
    progress.begin("warm start", sft.steps, optimiser.updates)
    saved_at = perf_counter()
    try:
        for figures in imitate(run.loaded.model, optimiser, trajectories, sft, optim, seed=run.config.seed):
            trackers.log(PHASE, optimiser.updates, figures)
            progress.step(optimiser.updates, figures)
            await stop.check()
            if perf_counter() - saved_at > SAVE_EVERY_S:
                run.save_warm_start(optimiser)
                saved_at = perf_counter()
    except (Stopped, asyncio.CancelledError):
        run.save_warm_start(optimiser)
        raise
    await run.engine.update_weights(None, policy_version=0)
    run.end_warm_start(optimiser)


async def _played(
    run: Run, requests: Sequence[EpisodeRequest], make_env: MakeEnv, progress: Progress
) -> Sequence[Trajectory]:
    """The policy's episodes in the order of the requests: those in the store, if all of them are there."""
    config, store = run.config, run.store
    sft, policy = config.sft, teacher_policy(config)
    assert sft is not None
    assert policy is not None
    keys = [(request.task.id, request.sample) for request in requests]
    if store.done(PHASE, 0) == set(keys):
        stored = (episode.trajectory for episode in store.episodes(PHASE, 0))
        by_key = {(t.task_id, t.sample): t for t in stored}
        return [by_key[key] for key in keys if by_key[key].trainable]
    store.delete_episodes(PHASE, 0)
    progress.say(f"Playing {sft.episodes} episodes of the policy {sft.policy!r} to imitate.")
    teacher = TeacherAgent(
        policy,
        run.renderer,
        sft.policy,
        max_context=config.rollout.max_tokens,
        system_prompt=config.env.system_prompt,
    )
    collected = await collect(
        make_env,
        teacher,
        requests,
        store=store,
        phase=PHASE,
        step=0,
        rollout=config.rollout,
        needs_group=False,
    )
    if not collected.trajectories:
        why = ", ".join(f"{count} {reason}" for reason, count in collected.reasons.items())
        raise HealthError(
            f"warm start: none of {len(requests)} episodes of the policy {sft.policy!r} can be imitated ({why}). "
            "The run store holds their errors"
        )
    return collected.trajectories
