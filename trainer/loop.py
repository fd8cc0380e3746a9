"""The training loop, from top to bottom: warm start, then collect, learn, save, and evaluate before and
after.

report = train(load_config("calculator.toml"), out=Path("runs/calculator"))
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from turngym.agents.chat import ChatAgent
from turngym.agents.group_rewards import group_rewards_of
from turngym.agents.protocols import Agent, Sampling
from turngym.agents.sync import synchronous
from turngym.envs import make
from turngym.evaluation.report import EvalReport, stored_report
from turngym.evaluation.runner import aevaluate
from turngym.trainer import checkpoint
from turngym.trainer.allocator import keep_freed_memory
from turngym.trainer.collect import TaskOrder, collect, group_requests, limits_of
from turngym.trainer.config import TrainConfig
from turngym.trainer.errors import HealthError
from turngym.trainer.health import check_health
from turngym.trainer.learn import learn
from turngym.trainer.opening import open_run
from turngym.trainer.preflight import env_kwargs, eval_split, open_env, preflight
from turngym.trainer.progress import Progress, make_progress
from turngym.trainer.report import TrainReport, write_results
from turngym.trainer.run import Run
from turngym.trainer.stopping import Stopped, StopRequest, on_signal
from turngym.trainer.tracking import Trackers
from turngym.trainer.warm_start import warm_start

AgentFactory = Callable[[Run, float], Agent]
"""Makes the agent that plays a run's episodes, from the run and a temperature."""


def chat_agent(run: Run, temperature: float) -> Agent:
    """The run's policy behind its engine."""
    config = run.config
    sampling = Sampling(temperature=temperature, max_tokens=config.rollout.max_turn_tokens)
    return ChatAgent(
        run.engine, run.renderer, sampling, name=config.model.path, system_prompt=config.env.system_prompt
    )


async def atrain(
    config: TrainConfig,
    *,
    out: Path,
    resume: bool = False,
    progress: Progress | None = None,
    make_agent: AgentFactory = chat_agent,
) -> TrainReport:
    """Train a policy.

    The first Ctrl-C ends the run in order: the step in hand is given up, what was learned is saved, and
    `resume` goes on from there with the same numbers as if nothing had happened.

    Args:
        config: what to do.
        out: folder of the run.
        resume: go on with the run that the folder holds.
        progress: who is told how it goes; default: a display on a terminal, lines elsewhere.
        make_agent: plays the episodes, instead of the policy itself.

    Raises:
        ConfigError: it cannot work; says which key and what to write. Nothing was loaded yet.
        HealthError: the health guard stopped the run; says what is saved, and which checkpoint is sound.
        CheckpointError, StoreError: the disk failed; what was saved before is untouched.
    """
    preflight(config)
    keep_freed_memory()
    started = perf_counter()
    stop = StopRequest()
    with (
        on_signal(stop.make),
        progress or make_progress() as progress,
        open_run(config, Path(out), resume=resume) as run,
        Trackers.open(config, run.folder, run.store, done=run.steps_done) as trackers,
    ):
        loop = _Loop(run, make_agent, trackers, progress, stop)
        try:
            before, after = await loop.run_all()
        except (Stopped, asyncio.CancelledError) as stopped:
            if run.warm:
                run.save()
            where = f"after step {run.step} of {config.steps}" if run.warm else "during the warm start"
            progress.say(f"Stopped {where}. Run the same with --resume to go on.")
            if isinstance(stopped, asyncio.CancelledError):
                raise
            return TrainReport(run.folder, run.step, perf_counter() - started, None, None, interrupted=True)
        finally:
            await run.engine.close()
        report = TrainReport(run.folder, run.step, perf_counter() - started, before, after)
        write_results(run, report)
    return report


train = synchronous(atrain)


class _Loop:
    """A run in progress, and who is told about it."""

    def __init__(
        self, run: Run, make_agent: AgentFactory, trackers: Trackers, progress: Progress, stop: StopRequest
    ) -> None:
        self.run = run
        self.trackers = trackers
        self.progress = progress
        self.stop = stop
        config = run.config
        env = open_env(config.env)
        self.order = TaskOrder(env.tasks, config.env, seed=config.seed)
        self.eval_split = eval_split(config, env)
        self.group_rewards = group_rewards_of(env)
        env.close()
        make_env = functools.partial(make, config.env.id, **env_kwargs(config.env))
        self.make_env = functools.partial(make_env, split=config.env.split)
        self.make_eval_env = functools.partial(make_env, split=self.eval_split)
        self.agent = make_agent(run, config.rollout.temperature)
        evaluated_at = config.eval.temperature
        self.eval_agent = make_agent(
            run, config.rollout.temperature if evaluated_at is None else evaluated_at
        )

    async def run_all(self) -> tuple[EvalReport | None, EvalReport | None]:
        """Everything; gives the evaluations before and after."""
        run, config = self.run, self.run.config
        await warm_start(
            run, self.order, self.make_env, trackers=self.trackers, progress=self.progress, stop=self.stop
        )
        run.hold_reference()
        before = self.stored_evaluation(0) if run.step else await self.evaluate(0)
        self.progress.begin("train", config.steps, run.step)
        while run.step < config.steps:
            # At the start of a step, so that a run that was killed during an evaluation finishes it first.
            if run.step and config.eval.every and run.step % config.eval.every == 0:
                await self.evaluate(run.step)
            figures = await self.train_step(run.step + 1)
            self.progress.step(run.step, figures)
            if run.step % config.checkpoint.every == 0 or run.step == config.steps:
                run.save()
        after = await self.evaluate(run.step) if run.step else before
        return before, after

    async def train_step(self, step: int) -> dict[str, float]:
        """One training step: play, store, learn, look after the policy's health."""
        run, config = self.run, self.run.config
        rollout, algorithm = config.rollout, config.algorithm.at((step - 1) / config.steps)
        requests = list(
            group_requests(
                self.order,
                env_id=config.env.id,
                seed=config.seed,
                step=step,
                # The warm start's tasks come first in the order.
                position=(config.sft.episodes if config.sft else 0) + (step - 1) * rollout.groups_per_step,
                groups=rollout.groups_per_step,
                group_size=rollout.group_size,
            )
        )
        collected = await self.stop.unless_made(
            collect(
                self.make_env,
                self.agent,
                requests,
                store=run.store,
                phase="train",
                step=step,
                rollout=rollout,
                needs_group=algorithm.needs_group,
                group_rewards=self.group_rewards,
            )
        )
        figures = dict(collected.figures)
        if not collected.trajectories:
            self.progress.say(f"step {step}: no episode is left to learn from; the weights stay as they are")
        try:
            if collected.trajectories:
                figures |= learn(
                    run.learner,
                    algorithm,
                    collected.trajectories,
                    collected.groups,
                    seed=config.seed,
                    step=step,
                    train_policy=step > config.critic.warmup_steps or not algorithm.critic,
                )
            await run.engine.update_weights(None, policy_version=step)
            run.step = step
            self.trackers.log("train", step, figures)
            for reason, count in collected.reasons.items():
                self.progress.say(f"step {step}: {count} episodes {reason} were left out")
            check_health(config.health, step, figures, error=collected.error)
            if not figures["sampled_tokens"] and figures["failed_share"] < 1:
                raise HealthError(
                    f"step {step}: not one token was sampled in {len(requests)} episodes: "
                    "the prompt alone fills rollout.max_tokens; raise it"
                )
        except HealthError as error:
            raise self.stopped(step, error) from error
        return figures

    def stopped(self, step: int, error: HealthError) -> HealthError:
        """The guard's error with what there is to go on from. A step that broke the weights is not saved."""
        run = self.run
        last = checkpoint.latest(run.checkpoints)
        if run.step < step:
            way = "begin again in another folder (--out)" if last is None else f"--resume goes on from {last}"
            return HealthError(f"{error}. That step is not kept: {way}")
        place = run.save(spare=1)
        before = "" if last is None else f"; the last checkpoint that the guard passed is {last}"
        return HealthError(f"{error}. It is saved as {place}{before}")

    async def evaluate(self, step: int) -> EvalReport | None:
        """Evaluate the present policy, or read what is stored of that evaluation."""
        config = self.run.config
        if not config.eval.tasks:
            return None
        report = await self.stop.unless_made(
            aevaluate(
                self.make_eval_env,
                self.eval_agent,
                split=self.eval_split,
                tasks=config.eval.tasks,
                samples=config.eval.samples,
                tags=config.env.task_tags,
                store=self.run.store,
                step=step,
                concurrency=config.rollout.concurrency,
                limits=limits_of(config.rollout),
                retries=config.rollout.retries,
                seed=config.seed,
                resume=True,
            )
        )
        self.say_evaluation(report)
        figures = {"reward": report.reward, "success": report.success}
        means = {name: interval.mean for name, interval in figures.items() if interval is not None}
        self.trackers.log(f"eval/{self.eval_split}", step, means)
        return report

    def stored_evaluation(self, step: int) -> EvalReport | None:
        """What was found at an earlier step. The present policy would give another answer."""
        if not self.run.config.eval.tasks:
            return None
        report = stored_report(self.run.store, f"eval/{self.eval_split}", step)
        if report is None:
            self.progress.say(f"The run store has no finished evaluation of step {step}.")
            return None
        report = report.model_copy(update={"new_episodes": 0})
        self.say_evaluation(report)
        return report

    def say_evaluation(self, report: EvalReport) -> None:
        """A line of figures, and one about episodes that failed."""
        say = self.progress.say
        say(f"Evaluation at step {report.step}: success {report.success}, reward {report.reward}")
        if report.unscored:
            most = next(iter(report.errors), "an unknown error")
            say(
                f"  {report.unscored} of {report.episodes} episodes failed and are in no mean, most often by: {most}"
            )
