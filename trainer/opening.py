"""How a run is begun, and taken up again after its last complete checkpoint.

What lies in a folder was written by a process that may have been killed, on a disk that may have been full, and
may have been moved by somebody since: everything is checked before the run goes on, and what does not fit is
refused with what to do about it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from turngym.agents.engines.hf import HFEngine
from turngym.agents.local import stop_ids_of
from turngym.agents.models import LoadedModel, load_model
from turngym.agents.rendering import choose_renderer
from turngym.evaluation.report import forget_evaluations
from turngym.evaluation.store import STORE_NAME, RunStore
from turngym.trainer import checkpoint
from turngym.trainer.config import TrainConfig, to_toml
from turngym.trainer.errors import CheckpointError, ConfigError
from turngym.trainer.finite import BROKEN, first_not_finite
from turngym.trainer.forward import check_model, disable_dropout
from turngym.trainer.run import CHECKPOINTS, REFERENCE, SAVED, WARM_START, Run, build_learner
from turngym.trainer.update import Learner

PARTS = (CHECKPOINTS, REFERENCE, WARM_START, "config.toml", "final", "transcripts")
"""What a run writes beside its store, and would replace."""

CHANGEABLE = frozenset({"steps", "checkpoint", "health", "tracking"})
"""Keys that may differ when a run is resumed; the others would make it another run."""

_STATE = ("step", "warm", "optimisers", "critic")
_WARM_STATE = ("optimiser",)


def open_run(config: TrainConfig, folder: Path, *, resume: bool) -> Run:
    """Begin a run, or take one up again after its last complete checkpoint.

    What a killed attempt stored after that checkpoint is forgotten, and will be made again, the same.

    Raises:
        ConfigError: the folder holds a run already, or one with another configuration.
        CheckpointError: the checkpoint cannot be read, or it and the store are not of the same run and time.
        NotAStore: the store is damaged.
        ModelNotFound: no such model.
    """
    place = folder / STORE_NAME
    if place.exists() and not resume:
        raise ConfigError(
            f"{folder} holds a run already: add --resume to go on with it, or choose another --out"
        )
    begun = place.exists()
    parts = [name for name in PARTS if (folder / name).exists()]
    if parts and not begun:
        raise ConfigError(
            f"{folder} has {', '.join(parts)}, but no {STORE_NAME}: it is no folder of a run, or has lost its store. "
            "Choose another --out"
        )
    with contextlib.ExitStack() as on_error:
        if begun:
            store = on_error.enter_context(RunStore(place))
            _check_same_run(store, config)
        last = checkpoint.latest(folder / CHECKPOINTS)
        last_warm = checkpoint.latest(folder / WARM_START) if last is None else None
        if begun:
            _check_whole(store, folder)
        loaded = _load_model(config, last or last_warm)
        state = None if last is None else checkpoint.load_state(last, _STATE)
        warm_state = None if last_warm is None else checkpoint.load_state(last_warm, _WARM_STATE)
        if not begun:  # nothing is written for a model that cannot be loaded
            store = on_error.enter_context(RunStore(place))
        (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
        store.set_meta("config", config.model_dump(mode="json"))
        for unfinished in (folder, folder / CHECKPOINTS, folder / WARM_START):
            checkpoint.clean(unfinished)
        run = _assemble(config, folder, store, loaded, last, state)
        if last_warm is not None and warm_state is not None:
            run.resume_warm_start(last_warm, warm_state)
        on_error.pop_all()
    return run


def _check_same_run(store: RunStore, config: TrainConfig) -> None:
    before = store.get_meta("config")
    if before is None:
        return
    if not isinstance(before, dict):
        raise store.damaged("config")
    try:
        # A version that knows more settings reads an older run with what they are by default.
        before = TrainConfig.model_validate(before).model_dump(mode="json")
    except ValidationError as error:
        raise store.damaged("config") from error
    now = config.model_dump(mode="json")
    for key in sorted(set(now) - CHANGEABLE):
        if now[key] != before.get(key):
            raise ConfigError(
                f"the run in {store.path.parent} was begun with another {key} "
                f"({before.get(key)}, now {now[key]}): "
                "resume it with its own config.toml, or choose another --out"
            )


def _check_whole(store: RunStore, folder: Path) -> None:
    """Does the store belong to what lies beside it? A run that goes on from half of itself says nothing true."""
    if store.get_meta("config") is None:  # of an attempt that was killed at once, or no store of this run
        parts = [name for name in PARTS if name != "config.toml" and (folder / name).exists()]
        if parts:
            raise CheckpointError(
                f"{store.path} is empty, but beside it there are {', '.join(parts)}: "
                "put back the store of that run, or choose another --out"
            )
        if store.phases():
            raise CheckpointError(f"{store.path} holds an evaluation, no training run: choose another --out")
        return
    saved, steps = store.get_meta(SAVED), checkpoint.checkpoints(folder / CHECKPOINTS)
    if saved is not None and not steps:
        raise CheckpointError(
            f"the run in {folder} was saved at step {saved}, but {CHECKPOINTS} has no checkpoint any more: "
            "put it back, or begin again in another folder (--out)"
        )
    played = store.last_step("train") or 0
    if steps and steps[-1][0] > played:
        older = [path.name for step, path in steps if step <= played]
        way = f"delete the checkpoints after {older[-1]} to go on from there, " if older else ""
        raise CheckpointError(
            f"{steps[-1][1]} is newer than {store.path}, which ends at step {played}: "
            f"put back the store of that time, {way}or begin again in another folder (--out)"
        )


def _load_model(config: TrainConfig, saved: Path | None) -> LoadedModel:
    """The model of a checkpoint, or that of the configuration where there is none."""
    options: dict[str, Any] = {
        "device": config.model.device,
        "dtype": config.model.dtype,
        "seed": config.seed,
    }
    if saved is None:
        loaded = load_model(config.model.path, **options)
        broken = first_not_finite(dict(loaded.model.named_parameters()))
        if broken is not None:
            raise ConfigError(f"model.path = {config.model.path!r}: {broken} {BROKEN}: choose a sound model")
    else:
        with checkpoint.usable(saved):
            loaded = load_model(saved, **options)
            broken = first_not_finite(dict(loaded.model.named_parameters()))
            if broken is not None:
                raise ValueError(f"{broken} {BROKEN}")
    longest = getattr(loaded.model.config, "max_position_embeddings", None)
    if longest is not None and longest < config.rollout.max_tokens:
        raise ConfigError(
            f"rollout.max_tokens = {config.rollout.max_tokens}, but {loaded.name} reads at most {longest} "
            f"tokens: write {longest} or less"
        )
    check_model(loaded.model)
    disable_dropout(loaded.model)
    return loaded


def _assemble(
    config: TrainConfig,
    folder: Path,
    store: RunStore,
    loaded: LoadedModel,
    last: Path | None,
    state: dict[str, Any] | None,
) -> Run:
    learner = build_learner(config, loaded.model)
    step = 0
    if last is not None and state is not None:
        with checkpoint.usable(last):
            step = _restore(learner, state, last)
    warm = config.sft is None or state is not None
    _forget(store, step + 1 if warm else 0)
    engine = HFEngine(
        loaded.model,
        max_context=config.rollout.max_tokens,
        slots=config.rollout.concurrency,
        policy_version=step,
    )
    renderer = choose_renderer(loaded.tokenizer, renderer=config.model.renderer, stop_ids=stop_ids_of(loaded))
    return Run(config, folder, store, loaded, engine, renderer, learner, step, warm)


def _restore(learner: Learner, state: dict[str, Any], place: Path) -> int:
    """Give a learner the state of a checkpoint, and return its step."""
    step = int(state["step"])
    if place != place.with_name(checkpoint.name_of(step)):
        raise ValueError(f"it holds step {step}: its folder was renamed")
    for optimiser, saved in zip(learner.optimisers, state["optimisers"], strict=True):
        optimiser.load_state_dict(saved)
    if learner.critic is not None:
        learner.critic.load_state_dict(state["critic"])
    return step


def _forget(store: RunStore, step: int) -> None:
    """Forget what a killed attempt stored from a step on; the warm start keeps its own books."""
    store.delete_episodes("train", step)
    store.delete_metrics("train", step)
    forget_evaluations(store, step)
