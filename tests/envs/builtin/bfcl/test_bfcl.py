"""The benchmark's own reference solutions, whole and perturbed, on every one of its 800 tasks."""

import json

import numpy as np
import pytest

from turngym.envs import ToolCall, assistant, check, make
from turngym.envs.builtin.bfcl.data import CATEGORIES, DOCS, functions_of, task_set
from turngym.envs.builtin.bfcl.environment import MOST_STEPS, expert, random_calls
from turngym.envs.builtin.bfcl.world import World, parse_call
from turngym.envs.tasks import iterate

ID = "turngym/BFCLMultiTurn-v0"


def every_task():
    tasks = task_set(CATEGORIES)
    return [task for split in tasks.splits for task in iterate(tasks, split)]


def play(env, task, policy, seed=0):
    env.reset(seed=seed, options={"task": task})
    rng = np.random.default_rng(seed)
    while True:
        _, reward, terminated, _, info = env.step(policy(task, tuple(env.history), rng))
        if terminated:
            return reward, info["metrics"]


def without_a_call(which):
    """The reference solution but for one call: the first of its first request with calls, or the last of the last."""

    def policy(task, history, rng):
        message = expert(task, history, rng)
        requests = [number for number, calls in enumerate(task.target) if calls]
        now = sum(message.role == "user" for message in history) - 1
        if not message.tool_calls or now != requests[0 if which == "first" else -1]:
            return message
        left = message.tool_calls[1:] if which == "first" else message.tool_calls[:-1]
        return assistant(None, *left) if left else assistant("Done.")

    return policy


def test_there_are_800_tasks_and_a_conversation_is_in_one_split():
    tasks = task_set(CATEGORIES)
    numbers = {split: {t.id.rpartition("_")[2] for t in iterate(tasks, split)} for split in tasks.splits}
    assert sum(tasks.size(split) for split in tasks.splits) == 800
    assert not numbers["train"] & numbers["test"]
    assert {
        category: sum(category in task.tags for task in every_task()) for category in CATEGORIES
    } == dict.fromkeys(CATEGORIES, 200)


def test_the_reference_calls_score_1_on_every_task_and_perturbed_ones_0():
    env = make(ID)
    for task in every_task():
        assert play(env, task, expert) == (
            1.0,
            {"success": 1.0, "requests": 1.0, "calls": sum(map(len, task.target)), "errors": 0.0},
        ), task.id
        for which in ("first", "last"):
            assert play(env, task, without_a_call(which))[0] == 0.0, (task.id, which)


def test_an_extra_call_that_changes_the_world_fails_and_one_that_only_looks_does_not():
    env = make(ID, categories=["base"])
    task = env.tasks.get("base_0")

    def with_extra(name, **arguments):
        def policy(task, history, rng):
            message = expert(task, history, rng)
            if len(history) > 1:
                return message
            return assistant(None, *message.tool_calls, ToolCall.of(name, arguments, id="extra"))

        return policy

    assert play(env, task, with_extra("ls"))[0] == 1.0
    reward, metrics = play(env, task, with_extra("touch", file_name="litter.txt"))
    assert (reward, metrics["requests"]) == (0.0, 0.0)


def test_a_result_counts_once_for_each_time_that_the_reference_needs_it():
    env = make(ID, categories=["base"])
    env.reset(options={"task": "base_0"})
    env._returned, env._called = ["a"], True
    env._reference = env._world
    env._world.call = lambda *_: "a"
    env.task = env.task.model_copy(update={"target": [["cd(folder='x')", "cd(folder='x')"]] * 4})
    assert not env._is_right()
    env._returned = ["a", "b", "a"]
    assert env._is_right()


def test_withheld_functions_are_refused_until_they_are_offered():
    env = make(ID, categories=["miss_func"])
    task = env.tasks.get("miss_func_0")
    assert task.metadata["withheld"] == {"3": ["sort"]}
    _, info = env.reset(seed=0, options={"task": task})
    assert "sort" not in [spec.name for spec in info["tools"]]
    sort = assistant(None, ToolCall.of("sort", {"file_name": "final_report.pdf"}))
    (answer,), *_ = env.step(sort)
    assert "no tool 'sort'" in answer.text
    while sum(message.role == "user" for message in env.history) < 4:
        observation, *_ = env.step("Done.")
    offered = json.loads(observation[0].text.split("\n")[1])
    assert [function["name"] for function in offered] == ["sort"]
    (answer,), *_ = env.step(sort)
    assert "no tool" not in answer.text
    assert "sort" not in [spec.name for spec in env.tools]


def test_what_the_reference_needs_early_is_not_withheld():
    task = task_set(("miss_func",)).get("miss_func_49")
    assert task.metadata["withheld"] == {"3": ["wc", "cat"]}


def test_too_many_steps_in_one_request_end_the_episode():
    env = make(ID)
    env.reset(seed=0)
    ls = assistant(None, ToolCall.of("no_such_function", {}))
    for _ in range(MOST_STEPS):
        assert env.step(ls)[2] is False
    _, reward, terminated, truncated, info = env.step(ls)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["metrics"]["errors"] == MOST_STEPS + 1


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("logarithm", {"value": 2, "base": 10, "precision": 10**9}),
        ("power", {"base": 9, "exponent": 9**9}),
        ("power", {"base": 10**400, "exponent": 1}),
        ("square_root", {"number": 2, "precision": 10**12}),
        ("sum_values", {"numbers": [10**400, 1]}),
    ],
)
def test_arithmetic_without_end_is_refused(name, arguments):
    world = World(["MathAPI"], {}, long_context=False)
    assert "is not supported" in world.call(name, named=arguments)


def test_the_precision_of_the_process_stays_what_it_was():
    mpmath = pytest.importorskip("mpmath")
    before = mpmath.mp.dps
    assert "mpf" in World(["MathAPI"], {}, long_context=False).call("logarithm", (20, 10, 40))
    assert mpmath.mp.dps == before


def test_private_and_unknown_names_are_no_functions():
    world = World(["MathAPI", "TicketAPI"], {}, long_context=False)
    for name in ("_load_scenario", "__init__", "nothing"):
        assert "there is no function" in world.call(name)


@pytest.mark.parametrize("text", ["ls", "os.system('x')", "f(x=g())", "f(*a)", "[1]"])
def test_a_reference_call_holds_literals_only(text):
    with pytest.raises(ValueError):
        parse_call(text)


def test_the_schemas_name_types_of_json_schema():
    allowed = {"object", "array", "string", "integer", "number", "boolean", None}

    def walk(schema):
        if isinstance(schema, dict):
            if "properties" in schema:
                assert schema["type"] in allowed
                for value in schema["properties"].values():
                    assert value.get("type") in allowed
            for value in schema.values():
                walk(value)

    for name in DOCS:
        for spec in functions_of(name):
            walk(spec.function.parameters)


def test_random_play_raises_nothing():
    env = make(ID)
    tasks = every_task()
    for number in range(1000):
        task = tasks[number * 7 % len(tasks)]
        reward, metrics = play(env, task, random_calls, seed=number)
        assert reward in (0.0, 1.0)
        assert 0.0 <= metrics["requests"] <= 1.0


def test_it_keeps_the_laws():
    assert [result for result in check(ID) if not result.ok] == []
