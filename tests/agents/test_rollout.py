"""One episode: its limits, its outcome taxonomy, its cleanup, and what is recorded on every exit."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import time
from typing import Any

import gymnasium
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.agents.errors import EngineError, TemplateError
from turngym.agents.limits import Limits
from turngym.agents.protocols import NoiseKey
from turngym.agents.rollout import rollout
from turngym.agents.simple import ScriptedAgent
from turngym.agents.types import Action, Outcome, Tokens, Trajectory
from turngym.envs.errors import GradingError, InfrastructureError, InvalidAction, UnknownTask
from turngym.envs.messages import assistant, user

from .conftest import ScriptedEnv, Step, TokenAgent

NOISE = NoiseKey(run_seed=0, step=0, task="t0", sample=3)


def play(
    env: Any, agent: Any, *, task: Any = "t0", seed: int = 5, limits: Limits | None = None
) -> Trajectory:
    return asyncio.run(rollout(env, agent, task=task, seed=seed, noise=NOISE, limits=limits or Limits()))


def timeless(trajectory: Trajectory) -> Trajectory:
    turns = tuple(dataclasses.replace(turn, agent_s=0.0, env_s=0.0) for turn in trajectory.turns)
    return dataclasses.replace(trajectory, turns=turns, wall_s=0.0)


def test_a_completed_episode_is_recorded_whole() -> None:
    end = Step(
        1.5, True, text="done", info={"reward_components": {"correct": 3}, "metrics": {"success": True}}
    )
    trajectory = play(ScriptedEnv([Step(0.25), end]), ScriptedAgent(["first", "second"]))
    assert trajectory.outcome == Outcome("completed", "terminated")
    assert (trajectory.task_id, trajectory.seed, trajectory.sample, trajectory.env_id) == (
        "t0",
        5,
        3,
        "ScriptedEnv",
    )
    assert trajectory.prompt == (user("question 0"),)
    assert [turn.action.message for turn in trajectory.turns] == [assistant("first"), assistant("second")]
    assert [turn.observation for turn in trajectory.turns] == [(user("go on"),), (user("done"),)]
    assert [turn.reward for turn in trajectory.turns] == [0.25, 1.5]
    assert trajectory.turns[1].reward_components == {"correct": 3.0}
    assert trajectory.metrics == {"success": 1.0}
    assert trajectory.final_context_ids == ()


def test_an_anchor_names_the_state_that_a_turn_started_from() -> None:
    trajectory = play(ScriptedEnv([Step(), Step(terminated=True)]), ScriptedAgent(["a", "b"]))
    assert [turn.anchor for turn in trajectory.turns] == ["s0", "s1"]


def test_without_a_task_the_seed_draws_one() -> None:
    trajectory = play(ScriptedEnv([Step(terminated=True)]), ScriptedAgent(["a"]), task=None, seed=7)
    assert trajectory.task_id == "t7"


def test_an_unknown_task_is_the_callers_error() -> None:
    with pytest.raises(UnknownTask):
        play(ScriptedEnv(), ScriptedAgent(["a"]), task="t99")


@pytest.mark.parametrize("wrapped", [False, True])
def test_law_06_where_a_wrapper_sets_both_flags_terminated_wins(wrapped: bool) -> None:
    if wrapped:  # TimeLimit truncates in the very step that terminates
        env: Any = gymnasium.wrappers.TimeLimit(
            ScriptedEnv([Step(), Step(terminated=True)]), max_episode_steps=2
        )
    else:
        env = ScriptedEnv([Step(), Step(terminated=True, truncated=True)])
    outcome = play(env, ScriptedAgent(["a", "b"])).outcome
    assert outcome.terminated
    assert not outcome.truncated


def test_law_06_limits_of_the_runner_truncate_and_keep_what_the_next_action_would_have_seen() -> None:
    trajectory = play(ScriptedEnv(), TokenAgent(), limits=Limits(max_turns=2))
    assert trajectory.outcome == Outcome("truncated", "turns")
    assert trajectory.outcome.truncated
    assert not trajectory.outcome.terminated
    assert len(trajectory.turns) == 2
    assert trajectory.final_context_ids == (9, 9)


def test_law_06_the_environments_own_truncation_is_named() -> None:
    trajectory = play(ScriptedEnv([Step(0.5, truncated=True)]), TokenAgent())
    assert trajectory.outcome == Outcome("truncated", "env")
    assert trajectory.final_context_ids == (9, 9)
    assert trajectory.reward == 0.5


def test_law_06_an_agents_failure_terminates_and_is_scored() -> None:
    env = ScriptedEnv([Step(0.5), Step(error=InvalidAction("not a message"))])
    outcome = play(env, ScriptedAgent(["a", "b"])).outcome
    assert (outcome.kind, outcome.cause, outcome.terminated, outcome.scored) == (
        "failed",
        "agent",
        True,
        True,
    )


def test_the_token_budget_is_checked_before_the_next_call() -> None:
    agent = TokenAgent()
    trajectory = play(ScriptedEnv(), agent, limits=Limits(max_tokens=12))
    # 2 prompt + 3, 2 + 3, then 2 more would leave nothing to sample.
    assert trajectory.outcome == Outcome("truncated", "tokens")
    assert len(trajectory.turns) == 2
    assert agent.players[0].budgets == [10, 5]
    assert trajectory.final_context_ids == (9, 9)


def test_a_reply_cut_by_its_length_ends_the_episode_and_never_reaches_the_environment() -> None:
    env = ScriptedEnv()
    trajectory = play(env, TokenAgent(), limits=Limits(max_tokens=9))
    assert trajectory.outcome == Outcome("truncated", "tokens")
    assert len(env.actions) == 1
    cut = trajectory.turns[-1]
    assert cut.action.finish_reason == "length"
    assert cut.observation == ()
    # V(final) is read right after the last sampled token: nothing follows it.
    assert trajectory.final_context_ids == ()
    assert len(trajectory.segments()[0].ids) == 9


def test_one_huge_observation_is_not_kept_as_a_final_context() -> None:
    class Huge(ScriptedEnv):
        def step(self, action: Any) -> Any:
            _, *rest = super().step(action)
            return (user("x"),) * 50, *rest

    trajectory = play(Huge(), TokenAgent(), limits=Limits(max_tokens=20))
    assert trajectory.outcome == Outcome("truncated", "tokens")
    assert trajectory.final_context_ids == ()


def test_the_wall_time_interrupts_a_slow_agent() -> None:
    async def forever(player: Any, new: Any) -> None:
        await asyncio.sleep(60)

    agent = TokenAgent(lambda player, new: forever(player, new))
    trajectory = play(ScriptedEnv(), agent, limits=Limits(max_seconds=0.03))
    assert trajectory.outcome == Outcome("truncated", "time")
    assert trajectory.turns == ()
    assert trajectory.final_context_ids == (9, 9)
    assert agent.players[0].closed == 1


def test_the_wall_time_interrupts_a_blocking_environment_and_keeps_the_unanswered_action() -> None:
    env = ScriptedEnv([Step(), Step(sleep_s=0.4)])
    env.blocking = True
    trajectory = play(env, TokenAgent(), limits=Limits(max_seconds=0.1))
    assert trajectory.outcome.cause == "infrastructure"
    assert len(trajectory.turns) == 2
    assert trajectory.turns[1].observation == ()
    assert trajectory.final_context_ids == ()
    assert trajectory.wall_s < 0.35


@pytest.mark.parametrize("blocking", [True, False], ids=["in a thread", "in the loop"])
def test_law_10_a_step_that_takes_most_of_the_time_is_no_score_of_the_agents(blocking: bool) -> None:
    env = ScriptedEnv([Step(0.5), Step(sleep_s=0.3)])
    env.blocking = blocking
    outcome = play(env, TokenAgent(), limits=Limits(max_seconds=0.1)).outcome
    assert (outcome.kind, outcome.cause, outcome.scored) == ("failed", "infrastructure", False)
    assert "one reset or step of the environment took" in (outcome.error or "")
    assert "of the 0.1 s of an episode" in (outcome.error or "")


def test_an_agent_that_takes_most_of_the_time_is_cut_also_where_the_environment_has_the_word() -> None:
    env = ScriptedEnv([Step(sleep_s=0.3)])
    env.blocking = True
    agent = TokenAgent(lambda player, new: asyncio.sleep(0.25))
    trajectory = play(env, agent, limits=Limits(max_seconds=0.3))
    assert trajectory.outcome == Outcome("truncated", "time")
    assert len(trajectory.turns) == 1


def test_law_10_a_reset_that_takes_all_the_time_is_no_score_of_the_agents() -> None:
    class SlowReset(ScriptedEnv):
        blocking = True

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            time.sleep(0.2)
            return super().reset(seed=seed, options=options)

    trajectory = play(SlowReset(), TokenAgent(), limits=Limits(max_seconds=0.05))
    assert trajectory.outcome == Outcome("failed", "infrastructure", "no reset within 0.05 s")
    assert trajectory.task_id == "t0"


def test_the_wall_time_holds_even_if_nobody_ever_waits() -> None:
    trajectory = play(
        ScriptedEnv([Step(sleep_s=0.02)] * 100), TokenAgent(), limits=Limits(max_seconds=0.2, max_turns=100)
    )
    assert trajectory.outcome == Outcome("truncated", "time")
    assert len(trajectory.turns) <= 11


@pytest.mark.parametrize("task", ["short", None])
def test_the_tasks_own_limits_hold_where_they_are_smaller(task: str | None) -> None:
    class OneTask(ScriptedEnv):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed, options={"task": self.tasks.get("short")})

    trajectory = play(OneTask(), ScriptedAgent(["a"] * 9), task=task)
    assert trajectory.outcome == Outcome("truncated", "turns")
    assert len(trajectory.turns) == 2
    assert play(OneTask(), TokenAgent(), task=task).outcome.cause == "tokens"
    slow = OneTask([Step(sleep_s=0.3)])
    slow.blocking = True
    late = play(slow, ScriptedAgent(["a"] * 9), task=task)
    assert late.outcome.cause == "infrastructure"
    assert late.wall_s < 0.25  # the step was interrupted, not waited for


class SandboxDied(Exception):
    outcome_cause = "sandbox"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (KeyError("x"), "env_error"),
        (SystemExit(0), "env_error"),
        (InfrastructureError("service gone"), "infrastructure"),
        (GradingError("verifier broke"), "infrastructure"),
        (SandboxDied("killed"), "sandbox"),
        (asyncio.CancelledError(), "infrastructure"),
    ],
)
@pytest.mark.parametrize("where", ["reset", "step"])
def test_law_10_a_broken_environment_is_failed_and_unscored(
    error: BaseException, cause: str, where: str
) -> None:
    env = ScriptedEnv([Step(), Step(error=error)]) if where == "step" else ScriptedEnv(reset_error=error)
    trajectory = play(env, TokenAgent())
    assert (trajectory.outcome.kind, trajectory.outcome.cause) == ("failed", cause)
    assert not trajectory.outcome.scored
    assert not trajectory.trainable
    assert type(error).__name__ in (trajectory.outcome.error or "")
    assert len(trajectory.turns) == (2 if where == "step" else 0)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (EngineError("out of memory"), "infrastructure"),
        (TemplateError("cannot render"), "infrastructure"),
        (ConnectionError("refused"), "infrastructure"),
        (TimeoutError("slow server"), "infrastructure"),
        (MemoryError(), "infrastructure"),
        (asyncio.CancelledError(), "infrastructure"),
        (InvalidAction("no such move"), "agent"),
        (ZeroDivisionError("bug"), "agent"),
    ],
)
def test_law_10_only_the_agents_own_failure_is_scored(error: BaseException, cause: str) -> None:
    def act(player: Any, new: Any) -> None:
        if player.size:
            raise error

    trajectory = play(ScriptedEnv([Step(0.5)]), TokenAgent(act))
    assert trajectory.outcome.cause == cause
    assert trajectory.outcome.scored == (cause == "agent")
    assert len(trajectory.turns) == 1


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e308, -2e9, "high", None])
def test_a_reward_that_is_no_finite_number_fails_the_episode_and_says_so(reward: Any) -> None:
    outcome = play(ScriptedEnv([Step(reward)]), ScriptedAgent(["a"])).outcome
    assert (outcome.kind, outcome.cause) == ("failed", "env_error")
    assert "ScriptedEnv: the reward is" in (outcome.error or "")


def test_a_success_that_is_no_share_fails_the_episode_and_says_so() -> None:
    end = Step(1.0, terminated=True, info={"metrics": {"success": 5}})
    outcome = play(ScriptedEnv([end]), ScriptedAgent(["a"])).outcome
    assert (outcome.kind, outcome.cause, outcome.scored) == ("failed", "env_error", False)
    assert "success is 5, not between 0 and 1" in (outcome.error or "")


def test_a_component_that_was_not_computed_is_absent_and_an_infinite_one_is_an_error() -> None:
    components = {"correct": 1.0, "judge": math.nan}
    trajectory = play(
        ScriptedEnv([Step(terminated=True, info={"reward_components": components})]), ScriptedAgent(["a"])
    )
    assert trajectory.turns[0].reward_components == {"correct": 1.0}
    infinite = ScriptedEnv([Step(terminated=True, info={"reward_components": {"judge": math.inf}})])
    assert play(infinite, ScriptedAgent(["a"])).outcome.cause == "env_error"


@pytest.mark.parametrize("observation", ["text", (1, 2), None])
def test_an_observation_that_is_no_messages_is_the_environments_error(observation: Any) -> None:
    class Odd(ScriptedEnv):
        def step(self, action: Any) -> Any:
            return observation, 0.0, True, False, {}

    outcome = play(Odd(), ScriptedAgent(["a"])).outcome
    assert outcome.cause == "env_error"
    assert "tuple of messages" in (outcome.error or "")


def test_cancelling_propagates_after_the_player_was_closed() -> None:
    agent = TokenAgent(lambda player, new: asyncio.sleep(60))

    async def main() -> None:
        episode = asyncio.create_task(rollout(ScriptedEnv(), agent, task="t0", seed=0, noise=NOISE))
        await asyncio.sleep(0.01)
        episode.cancel()
        with pytest.raises(asyncio.CancelledError):
            await episode

    asyncio.run(main())
    assert agent.players[0].closed == 1


def test_a_player_that_cannot_close_does_not_undo_its_episode(caplog: pytest.LogCaptureFixture) -> None:
    agent = TokenAgent()

    class Stuck(TokenAgent):
        def start(self, episode: Any) -> Any:
            player = super().start(episode)

            async def close() -> None:
                raise RuntimeError("cannot close")

            player.close = close  # type: ignore[method-assign]
            return player

    agent = Stuck()
    assert play(ScriptedEnv([Step(terminated=True)]), agent).outcome.kind == "completed"
    assert "closing the player" in caplog.text


def test_a_final_context_that_cannot_be_rendered_is_infrastructure() -> None:
    class NoFinal(TokenAgent):
        def start(self, episode: Any) -> Any:
            player = super().start(episode)

            def final_context(new: Any) -> Any:
                raise TemplateError("cannot render this")

            player.final_context = final_context  # type: ignore[method-assign]
            return player

    outcome = play(ScriptedEnv(), NoFinal(), limits=Limits(max_turns=1)).outcome
    assert (outcome.kind, outcome.cause) == ("failed", "infrastructure")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-2, 2), st.booleans(), st.booleans()), max_size=6),
    st.integers(1, 6),
    st.integers(1, 40),
    st.integers(0, 2**31 - 1),
)
def test_law_09_same_seed_and_actions_give_the_same_trajectory(
    script: list[tuple[float, bool, bool]], max_turns: int, max_tokens: int, seed: int
) -> None:
    def once() -> Trajectory:
        env = ScriptedEnv([Step(*step) for step in script])
        return play(env, TokenAgent(), task=None, seed=seed, limits=Limits(max_turns, max_tokens))

    first = once()
    assert timeless(first) == timeless(once())
    # And what every trajectory promises, whatever happened:
    assert len(first.turns) <= max_turns
    assert not (first.outcome.terminated and first.outcome.truncated)
    answered = sum(1 for turn in first.turns if turn.observation)
    assert first.reward == sum(step[0] for step in script[:answered])
    action_tokens = sum(sum(segment.is_action) for segment in first.segments())
    assert action_tokens == first.action_token_count()


def test_tokens_pass_through_untouched() -> None:
    tokens = Tokens((5, 6), (7, 8), (-0.1, -0.2))
    action = Action(assistant("a"), tokens, policy_version=4)
    trajectory = play(ScriptedEnv([Step(terminated=True)]), ScriptedAgent([action]))
    assert trajectory.turns[0].action is action
