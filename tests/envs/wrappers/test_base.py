"""Both faces, forks through any tower of wrappers, and the company of Gymnasium's own."""

from __future__ import annotations

import asyncio

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit

import turngym
from turngym.agents.driver import EnvDriver
from turngym.agents.simple import ScriptedAgent
from turngym.envs import assistant, make, reward, user
from turngym.envs.errors import ContractError, EpisodeOver
from turngym.envs.wrappers import (
    Recording,
    ShapedReward,
    TurnLimit,
    WallTimeLimit,
    WholeConversation,
    Wrapper,
)
from turngym.sandboxes import async_bridge

from .small import Async, Sync

GUESS = "turngym/GuessNumber-v0"


class Polite(Wrapper):
    """Says thank you, and counts how often."""

    def __init__(self, env):
        super().__init__(env)
        self.thanks = []

    def on_reset(self, result):
        self.thanks = []
        observation, info = result
        return (*observation, user("Please.")), info | {"polite": True}

    def on_action(self, action):
        return action.removesuffix(", please") if isinstance(action, str) else action

    def on_step(self, action, result):
        self.thanks.append(action)
        observation, *rest = result
        return (*observation, user(f"Thank you ({len(self.thanks)}).")), *rest


@reward(weight=-0.1, when="turn", name="shouting")
def shouting(action) -> float:
    return float(action.text.isupper())


def tower(env):
    """Ours above and below Gymnasium's."""
    inner = ShapedReward(TurnLimit(env, 3), shouting)
    return Polite(TimeLimit(RecordEpisodeStatistics(PassiveEnvChecker(OrderEnforcing(inner))), 99))


def play(env, actions, *, seed=3):
    opening = env.reset(seed=seed, options={"task": "train-0"})
    return opening, [env.step(action) for action in actions]


async def aplay(env, actions, *, seed=3):
    opening = await env.areset(seed=seed, options={"task": "train-0"})
    return opening, [await env.astep(action) for action in actions]


ACTIONS = ["BLUE, please", "x", "red"]


@pytest.mark.parametrize("core", [Sync, Async])
def test_both_faces_do_the_same(core):
    def ours():
        return Polite(ShapedReward(TurnLimit(core(), 3), shouting))

    expected = play(ours(), ACTIONS)
    (observation, info), results = expected
    assert observation == (user("Say red"), user("Please."))
    assert info["polite"]
    assert [result[1:4] for result in results] == [
        (-0.1, False, False),
        (0.0, False, False),
        (1.0, True, False),
    ]
    assert results[1][0][-1] == user("Thank you (2).")
    assert async_bridge.run(aplay(ours(), ACTIONS)) == expected
    env = ours()
    play(env, ACTIONS)
    with pytest.raises(EpisodeOver):
        env.step("red")


@pytest.mark.parametrize("core", [Sync, Async])
def test_the_driver_awaits_through_ours_and_steps_through_gymnasiums(core):
    def face(env):
        driver = EnvDriver(env)
        kind = "awaited" if driver._face is not None else "thread" if driver._thread is not None else "inline"
        driver.release()
        return kind

    is_async = core is Async
    assert face(Polite(TurnLimit(core(), 3))) == ("awaited" if is_async else "inline")
    assert face(TimeLimit(Polite(core()), 3)) == ("thread" if is_async else "inline")
    assert face(Polite(TimeLimit(core(), 3))) == ("thread" if is_async else "inline")


@pytest.mark.parametrize("core", [Sync, Async])
@pytest.mark.parametrize("wrap", [lambda env: Polite(TurnLimit(env, 3)), tower], ids=["ours", "tower"])
def test_rollouts_and_evaluations_take_them(core, wrap):
    trajectory = turngym.rollout(wrap(core()), ScriptedAgent(["a", "b", "c"]), task="train-0")
    assert len(trajectory.turns) == 3
    assert (trajectory.outcome.kind, trajectory.outcome.cause) == ("truncated", "env")
    report = turngym.evaluate(lambda: wrap(core(split="test")), ScriptedAgent(["green"]))
    assert report.success.mean == 1.0


def test_a_blocking_environment_is_stepped_in_its_thread():
    class Slow(Sync):
        blocking = True

    driver = EnvDriver(TurnLimit(Slow(), 2))
    assert driver._face is None
    assert driver._thread is not None
    driver.release()


def test_closing_awaits_what_is_inside():
    env = Async()
    asyncio.run(Polite(TurnLimit(env, 2)).aclose())
    assert env.closed
    env = Async()
    asyncio.run(Polite(TimeLimit(env, 2)).aclose())
    assert env.closed
    env = Async()
    Polite(env).close()
    assert env.closed


@pytest.mark.parametrize("core", [Sync, Async])
def test_the_fork_law_holds_through_a_tower(core):
    env = tower(core())
    actions = ["A", "b", "c"]
    _, expected = play(env, actions)
    env.reset(seed=3, options={"task": "train-0"})
    for step in range(3):
        twin, snapshot = env.fork(), env.snapshot()
        assert without_time(twin.step(action) for action in actions[step:]) == without_time(expected[step:])
        assert without_time(env.step(action) for action in actions[step:]) == without_time(expected[step:])
        for _ in range(2):
            env.restore(snapshot)
        env.step(actions[step])
    assert type(twin) is Polite
    assert twin.unwrapped is not env.unwrapped
    assert twin.env.env.time_queue is not env.env.env.time_queue


def without_time(results):
    """Results but for the seconds that RecordEpisodeStatistics notes."""
    kept = []
    for *rest, info in results:
        episode = info.get("episode")
        kept.append((*rest, info if episode is None else info | {"episode": (episode["r"], episode["l"])}))
    return kept


def test_a_fork_has_the_wrappers_own_state():
    env = Polite(TurnLimit(Sync(), 2))
    env.reset(seed=0)
    env.step("a")
    twin = env.fork()
    twin.step("b")
    assert (len(env.thanks), len(twin.thanks)) == (1, 2)
    assert env.step("b")[3]


def test_snapshots_fit_equal_towers_only():
    env = Polite(TurnLimit(Sync(), 3))
    env.reset(seed=0)
    snapshot = env.snapshot()
    with pytest.raises(TypeError, match="a snapshot of TurnLimit in Polite does not fit these wrappers"):
        TurnLimit(Polite(Sync()), 3).restore(snapshot)
    with pytest.raises(TypeError, match="does not fit Async"):
        Polite(TurnLimit(Async(), 3)).restore(snapshot)
    other = Polite(TurnLimit(Sync(), 3))
    other.restore(snapshot)
    assert other.step("x") == env.step("x")
    with pytest.raises(ContractError, match="CartPoleEnv is no environment of turngym's"):
        Polite(gymnasium.make("CartPole-v1").unwrapped).fork()


@pytest.mark.filterwarnings("ignore:.*The environment .* is different from the unwrapped version:UserWarning")
@pytest.mark.filterwarnings("ignore:.*not able to test alternative render modes:UserWarning")
def test_gymnasiums_checker_passes_over_ours():
    check_env(TurnLimit(make(GUESS), 3))
    check_env(WholeConversation(make(GUESS)))
    check_env(ShapedReward(make(GUESS), shouting))


def test_order_is_enforced_below_and_above():
    with pytest.raises(EpisodeOver, match="call reset first"):
        TurnLimit(make(GUESS), 3).step("1")
    with pytest.raises(gymnasium.error.ResetNeeded):
        OrderEnforcing(TurnLimit(make(GUESS), 3)).step("1")


def test_statistics_over_ours():
    env = RecordEpisodeStatistics(ShapedReward(TurnLimit(make(GUESS), 2), shouting))
    env.reset(seed=0, options={"task": "0-15:7"})
    env.step("A")
    *_, truncated, info = env.step("3")
    assert truncated
    assert (info["episode"]["r"], info["episode"]["l"]) == (pytest.approx(-0.1), 2)


def test_gymnasium_makes_the_tower_again_from_its_record():
    env = TurnLimit(gymnasium.make(GUESS), 2)
    again = gymnasium.make(env.spec)
    again.reset(seed=0, options={"task": "0-15:7"})
    assert [again.step("3")[3], again.step("3")[3]] == [False, True]
    assert "turngym.envs.wrappers.limits:TurnLimit" in env.spec.to_json()


def one_guess():
    return TurnLimit(make(GUESS), 2)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("autoreset", [AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_vector_environments_of_ours(kind, autoreset):
    if kind == "sync":
        vector = SyncVectorEnv([one_guess] * 2, autoreset_mode=autoreset)
    else:
        vector = AsyncVectorEnv([one_guess] * 2, shared_memory=False, autoreset_mode=autoreset)
    vector.reset(seed=[1, 2], options={"task": "0-15:7"})
    vector.step(("3", "3"))
    observations, rewards, terminated, truncated, infos = vector.step(("4", "7"))
    assert rewards.tolist() == [0.0, 0.9]
    assert terminated.tolist() == [False, True]
    assert truncated.tolist() == [True, False]
    fresh = (user("Guess my number from 0 to 15."),)
    if autoreset is AutoresetMode.SAME_STEP:
        assert infos["final_obs"].tolist() == [(user("higher"),), (user("correct"),)]
        assert observations == (fresh, fresh)
        assert infos["_final_info"].tolist() == [True, True]
    else:
        assert observations == ((user("higher"),), (user("correct"),))
        observations, rewards, terminated, truncated, _ = vector.step(("ignored", assistant("ignored")))
        assert observations == (fresh, fresh)
        assert not np.any([terminated, truncated])
    vector.close()


def test_make_vec_with_wrappers_of_ours():
    vector = gymnasium.make_vec(
        GUESS,
        num_envs=2,
        vectorization_mode="sync",
        wrappers=[lambda env: TurnLimit(env, 1), WholeConversation],
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    vector.reset(seed=0, options={"task": "0-15:7"})
    *_, truncated, infos = vector.step(("3", "4"))
    assert truncated.all()
    assert infos["final_obs"][0] == (user("Guess my number from 0 to 15."), assistant("3"), user("higher"))
    vector.close()


def test_all_of_ours_together(tmp_path):
    env = Recording(
        WholeConversation(ShapedReward(WallTimeLimit(TurnLimit(make(GUESS), 5), 1e6), shouting)),
        tmp_path / "e.jsonl",
    )
    _, results = (
        env.reset(seed=0, options={"task": "0-15:7"}),
        [env.step("3"), env.fork().step("7"), env.step("7")],
    )
    assert results[1] == results[2]
    assert len((tmp_path / "e.jsonl").read_bytes().splitlines()) == 2
