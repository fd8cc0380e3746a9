from __future__ import annotations

import dataclasses

import pytest

from turngym.agents.errors import EngineError
from turngym.agents.simple import ScriptedAgent
from turngym.agents.sync import run_sync
from turngym.agents.types import Action, Tokens
from turngym.envs import ListTasks, Task, ToolEnv, make, questions, reward
from turngym.envs.messages import assistant, user
from turngym.evaluation.store import RunStore
from turngym.trainer.batch import pack
from turngym.trainer.collect import TaskOrder, collect, group_requests
from turngym.trainer.config import EnvConfig, RolloutConfig
from turngym.trainer.errors import ConfigError

GUESS = "turngym/GuessNumber-v0"


def _order(seed=0, **options):
    return TaskOrder(make(GUESS).tasks, EnvConfig(id=GUESS, **options), seed=seed)


def _requests(groups=3, group_size=2, position=0, order=None):
    return list(
        group_requests(
            order or _order(),
            env_id=GUESS,
            seed=0,
            step=1,
            position=position,
            groups=groups,
            group_size=group_size,
        )
    )


def test_every_pass_over_a_sized_split_meets_each_task_once_in_an_order_of_its_own():
    passes = [[_order().at(16 * lap + place).target for place in range(16)] for lap in range(3)]
    assert all(sorted(targets) == list(range(16)) for targets in passes)
    assert passes[0] != passes[1] != passes[2]
    assert [_order(seed=1).at(place).target for place in range(16)] != passes[0]


def test_an_endless_split_depends_on_seed_and_position_alone():
    tasks = make("turngym/Calculator-v0").tasks
    config = EnvConfig(id="turngym/Calculator-v0")
    ids = [TaskOrder(tasks, config, seed=0).at(position).id for position in range(50)]
    assert len(set(ids)) == 50
    assert TaskOrder(tasks, config, seed=0).at(49).id == ids[49]
    assert TaskOrder(tasks, config, seed=1).at(49).id != ids[49]


def test_tasks_are_filtered_by_id_and_tag():
    assert {_order(task_ids=("0-15:3", "0-15:7")).at(position).target for position in range(8)} == {3, 7}
    tasks = ListTasks(
        train=[Task(id=f"t{n}", prompt=(user(f"{n}"),), tags=("odd",) if n % 2 else ()) for n in range(6)]
    )
    order = TaskOrder(tasks, EnvConfig(id="x", task_tags=("odd",)), seed=0)
    assert {order.at(position).id for position in range(9)} == {"t1", "t3", "t5"}
    with pytest.raises(ConfigError, match="no task of split"):
        TaskOrder(tasks, EnvConfig(id="x", task_tags=("even",)), seed=0)


def test_a_task_of_another_split_is_refused_by_name():
    with pytest.raises(
        ConfigError, match=r"env\.task_ids with env\.split = 'train': .*'16-31:20' is not in split 'train'"
    ):
        _order(task_ids=("0-15:3", "16-31:20"))
    with pytest.raises(ConfigError, match=r"env\.task_ids .*no task 'x'"):
        _order(task_ids=("x",))


def test_members_of_a_group_share_the_task_and_nothing_else():
    requests = _requests()
    assert [request.group for request in requests] == [0, 0, 1, 1, 2, 2]
    assert [request.sample for request in requests] == [0, 1] * 3
    assert all(a.task is b.task for a, b in zip(requests[::2], requests[1::2], strict=True))
    assert len({request.noise for request in requests}) == len({request.seed for request in requests}) == 6


def test_a_task_that_comes_twice_in_a_step_makes_two_groups_without_a_common_noise():
    requests = _requests(groups=32)
    assert len({(request.task.id, request.sample) for request in requests}) == 64
    assert {request.group for request in requests} == set(range(32))


class Guesser(ScriptedAgent):
    """Guesses its sample number, in made-up tokens; the samples in `failing` meet a broken engine instead."""

    def __init__(self, failing=(), silent=()):
        def script(episode):
            sample = episode.noise.sample
            if (episode.task.target, sample) in failing:
                raise EngineError("out of memory")
            for turn in range(5):
                ids = () if (episode.task.target, sample) in silent else (sample, 2)
                tokens = Tokens((1, 1) if turn == 0 else (3,), ids, (-0.5,) * len(ids))
                yield Action(assistant(str(sample)), tokens)

        super().__init__(script)


def _collect(agent, requests, store, needs_group=True, make_env=lambda: make(GUESS), group_rewards=()):
    return run_sync(
        lambda: collect(
            make_env,
            agent,
            requests,
            store=store,
            phase="train",
            step=1,
            rollout=RolloutConfig(retries=0),
            needs_group=needs_group,
            group_rewards=group_rewards,
        )
    )


@pytest.fixture
def store(tmp_path):
    with RunStore(tmp_path) as store:
        yield store


def test_a_step_is_stored_and_kept_in_the_order_of_its_requests(store):
    requests = _requests()
    collected = _collect(Guesser(), requests, store)
    assert [(t.task_id, t.sample) for t in collected.trajectories] == [
        (r.task.id, r.sample) for r in requests
    ]
    assert collected.groups == (0, 0, 1, 1, 2, 2)
    assert store.done("train", 1) == {(r.task.id, r.sample) for r in requests}
    figures = collected.figures
    assert figures["episodes"] == 6
    assert figures["failed_share"] == figures["left_out_share"] == 0
    assert figures["reward"] == pytest.approx(sum(t.reward for t in collected.trajectories) / 6)
    assert figures["success"] == pytest.approx(sum(t.metrics["success"] for t in collected.trajectories) / 6)


def test_what_an_environment_reports_is_never_taken_for_a_figure_of_the_trainers(store):
    def make_env():
        env = make(GUESS)
        step = env.step

        def renamed(action):
            *rest, info = step(action)
            if "metrics" in info:
                info["metrics"] |= {"entropy": 1e15, "episodes": -1.0, "loss": 7.0}
            return *rest, info

        env.step = renamed
        return env

    figures = _collect(Guesser(), _requests(), store, make_env=make_env).figures
    assert figures["episodes"] == 6
    assert (figures["env/episodes"], figures["env/loss"], figures["env/entropy"]) == (-1.0, 7.0, 1e15)
    assert "env/guesses" in figures
    assert not {"loss", "entropy", "guesses"} & set(figures)


def test_law_10_failures_shrink_their_group_and_one_left_alone_is_dropped(store):
    requests = _requests(group_size=3)
    targets = list(dict.fromkeys(request.task.target for request in requests))
    failing = {(targets[0], 0), (targets[1], 0), (targets[1], 2)}
    collected = _collect(Guesser(failing), requests, store)
    assert collected.groups == (0, 0, 2, 2, 2)
    assert collected.reasons == {"failed (infrastructure)": 3, "alone in their group": 1}
    assert collected.figures["failed_share"] == pytest.approx(3 / 9)
    assert collected.figures["left_out_share"] == pytest.approx(4 / 9)
    assert len(_stored(store)) == 9, "failures are on record too"
    scored = [trajectory.reward for trajectory in _stored(store) if trajectory.outcome.scored]
    assert collected.figures["reward"] == pytest.approx(sum(scored) / 6), "a failure is no 0"


def _stored(store):
    return [episode.trajectory for episode in store.episodes("train", 1)]


def test_without_groups_nobody_is_dropped_for_being_alone(store):
    requests = _requests(group_size=2)
    failing = {(requests[0].task.target, 0)}
    collected = _collect(Guesser(failing), requests, store, needs_group=False)
    assert collected.groups == (0, 1, 1, 2, 2)


def test_an_episode_without_a_sampled_token_is_left_out(store):
    requests = _requests()
    silent = {(requests[0].task.target, 0)}
    collected = _collect(Guesser(silent=silent), requests, store, needs_group=False)
    assert collected.reasons == {"without a sampled token": 1}
    assert len(collected.trajectories) == 5


def test_a_step_without_one_usable_episode_has_figures_and_reasons_and_nothing_else(store):
    requests = _requests()
    failing = {(request.task.target, request.sample) for request in requests}
    collected = _collect(Guesser(failing), requests, store)
    assert collected.trajectories == collected.groups == ()
    assert collected.reasons == {"failed (infrastructure)": 6}
    assert collected.figures["failed_share"] == 1.0
    assert "reward" not in collected.figures
    assert len(store.done("train", 1)) == 6


def test_figures_do_not_depend_on_the_order_in_which_episodes_finish(tmp_path):
    figures = []
    for number, concurrency in enumerate((1, 64)):
        with RunStore(tmp_path / f"{number}.sqlite") as store:
            requests = _requests()
            collected = run_sync(
                lambda store=store, requests=requests, concurrency=concurrency: collect(
                    lambda: make(GUESS),
                    Guesser(),
                    requests,
                    store=store,
                    phase="train",
                    step=1,
                    rollout=RolloutConfig(concurrency=concurrency),
                    needs_group=True,
                )
            )
        timeless = {name: value for name, value in collected.figures.items() if not name.endswith("_s")}
        figures.append(
            (timeless, [dataclasses.replace(t, wall_s=0, turns=()) for t in collected.trajectories])
        )
    assert figures[0] == figures[1]


class Words(ToolEnv):
    """Say something; who says the same as nobody else in the group is paid for it."""

    tasks = questions(train={f"{n}?": "x" for n in range(3)})

    @reward(weight=0.0)
    def length(self, answer) -> float:
        return min(1.0, len(answer) / 10)

    @reward(group=True, weight=0.5)
    @staticmethod
    def novelty(answers) -> list[float]:
        return [float(answers.count(answer) == 1) for answer in answers]


def test_group_rewards_are_paid_on_the_last_action_token_and_stored(store):
    tasks = Words().tasks
    requests = list(
        group_requests(
            TaskOrder(tasks, EnvConfig(id="x"), seed=0),
            env_id="x",
            seed=0,
            step=1,
            position=0,
            groups=3,
            group_size=3,
        )
    )

    def script(episode):
        ids = (5, episode.noise.sample, 2)
        yield Action(assistant("same" if episode.noise.sample else "other"), Tokens((1, 1), ids, (-0.5,) * 3))

    collected = _collect(
        ScriptedAgent(script), requests, store, make_env=Words, group_rewards=Words().group_rewards
    )
    assert [t.reward for t in collected.trajectories] == [0.5, 0.0, 0.0] * 3
    assert collected.figures["reward"] == pytest.approx(0.5 / 3)
    batch = pack(collected.trajectories, collected.groups)
    assert batch.rewards.tolist() == [[0.0] * 4 + [paid] for paid in [0.5, 0.0, 0.0] * 3]
    assert batch.component_names == ("novelty",)
    assert batch.reward_components[:, 0].tolist() == [1.0, 0.0, 0.0] * 3
    assert [t.reward for t in _stored(store)] == [0.5, 0.0, 0.0] * 3
    assert all(t.group_view is None for t in collected.trajectories)
