from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs import ToolCall, assistant, make, reference_policy, system
from turngym.envs.builtin.calculator import GREATEST, Calculator, apply, random_question

ID = "turngym/Calculator-v0"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["chain", "tree"]), st.integers(1, 7))
def test_questions_are_right_and_within_bounds(seed, shape, operations):
    task = random_question(np.random.default_rng(seed), least=operations, most=operations, shape=shape)
    text = task.prompt[0].text.removeprefix("Compute ")
    assert re.fullmatch(r"[0-9+*() -]+", text)
    assert eval(text) == task.target
    steps = task.metadata["steps"]
    assert len(steps) == operations
    assert apply(*steps[-1]) == task.target
    for a, op, b in steps:
        assert 0 <= apply(a, op, b) <= GREATEST
        assert 0 <= a <= GREATEST
        assert 0 <= b <= (GREATEST if shape == "tree" else 99)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32))
def test_each_call_of_a_chain_needs_the_one_before(seed):
    task = random_question(np.random.default_rng(seed), least=2, most=4, shape="chain")
    steps = task.metadata["steps"]
    assert 2 <= len(steps) <= 4
    for before, after in itertools.pairwise(steps):
        assert after[0] == apply(*before)


def test_all_lengths_and_operators_occur():
    tasks = [make(ID).tasks.at("train", index) for index in range(200)]
    assert {len(task.metadata["steps"]) for task in tasks} == {2, 3, 4}
    assert {op for task in tasks for _, op, _ in task.metadata["steps"]} == {"+", "-", "*"}


def test_trees_nest_to_the_right_too():
    tree = Calculator(shape="tree", least=3)
    texts = [tree.tasks.at("train", index).prompt[0].text for index in range(100)]
    assert any(re.search(r"[-+*] \(", text) for text in texts)


def test_splits():
    tasks = Calculator().tasks
    assert (tasks.splits, tasks.size("train"), tasks.size("test")) == (("train", "test"), None, 10_000)
    train = {tasks.at("train", index).content_hash for index in range(300)}
    test = {tasks.at("test", index).content_hash for index in range(300)}
    assert not train & test


def test_an_expert_episode_word_by_word():
    env = make(ID)
    task = next(t for t in (env.tasks.at("train", i) for i in range(99)) if len(t.metadata["steps"]) == 2)
    observation, info = env.reset(options={"task": task})
    assert observation == (
        system("Use the calculator for each step. Then give only the number."),
        *task.prompt,
    )
    assert info["tools"][0].function.parameters == {
        "properties": {
            "a": {"type": "integer"},
            "op": {"enum": ["+", "-", "*"], "type": "string"},
            "b": {"type": "integer"},
        },
        "required": ["a", "op", "b"],
        "type": "object",
    }
    expert = reference_policy(ID, "expert")
    rewards = []
    over = False
    while not over:
        action = expert(task, env.history, np.random.default_rng(0))
        observation, paid, over, truncated, info = env.step(action)
        rewards.append(paid)
        assert not truncated
    assert rewards == [0.0, 0.0, 1.0]
    assert [m.text for m in env.history if m.role == "tool"][-1] == str(task.target)
    assert info["metrics"] == {"success": 1.0, "calls": 2.0, "errors": 0.0}
    assert info["reward_components"] == {"correct": 1.0}


def test_the_expert_goes_on_from_anybodys_history():
    env = make(ID)
    env.reset(seed=0)
    expert, rng = reference_policy(ID, "expert"), np.random.default_rng(0)
    env.step(
        assistant(
            None, ToolCall.of("calculator", "{oops"), ToolCall.of("calculator", '{"b":1,"op":"+","a":1}')
        )
    )
    for _ in env.task.metadata["steps"]:
        env.step(expert(env.task, env.history, rng))
    assert env.step(expert(env.task, env.history, rng))[1] == 1.0


@pytest.mark.parametrize(
    ("answer", "paid"),
    [
        ("{}", 1), (" {} \n", 1), ("The answer is {}.", 1), ("The answer is {}", 1), ("{}.", 1), ("0{}", 1),
        ("", 0), ("{} {}", 0), ("It is {}", 0), ("1 {}", 0), ("{}0", 0), ("-{}", 0), ("{}, or 7", 0),
        ("{}.0", 0),
        ("The answer is not {}.", 0), ("\u0663", 0), ("9" * 5000, 0), ("{}\n7", 0), ("answer: {}", 0),
    ],
)  # fmt: skip
def test_only_the_integer_is_an_answer(answer, paid):
    env = make(ID)
    env.reset(options={"task": next(t for i in range(99) if (t := env.tasks.at("train", i)).target)})
    result = env.step(answer.replace("{}", str(env.task.target)))
    assert result[1] == paid
    assert result[4]["metrics"]["success"] == paid


def test_law_06_the_eighth_turn_terminates():
    env = make(ID)
    env.reset(seed=0)
    call = assistant(None, ToolCall.of("calculator", {"a": 1, "op": "+", "b": 1}))
    for turn in range(8):
        observation, paid, terminated, truncated, info = env.step(call)
        assert (observation[0].text, paid, terminated, truncated) == ("2", 0.0, turn == 7, False)
    assert info["metrics"] == {"success": 0.0, "calls": 8.0, "errors": 0.0}


def test_wrong_calls_go_on():
    env = make(ID)
    env.reset(seed=0)
    (message,), paid, over, _, _ = env.step(
        assistant(None, ToolCall.of("calculator", {"a": "1", "op": "/", "b": 1}))
    )
    assert message.text == (
        "Error: argument 'a': Input should be a valid integer, got \"1\". "
        "argument 'op': Input should be '+', '-' or '*', got \"/\". "
        'Right: calculator(a: integer, op: "+" | "-" | "*", b: integer)'
    )
    assert (paid, over) == (0.0, False)


@pytest.mark.parametrize("kwargs", [{"least": 0}, {"least": 5}, {"most": 8}, {"shape": "ring"}])
def test_arguments_are_checked(kwargs):
    with pytest.raises(ValueError, match="expected 1 ≤ least"):
        Calculator(**kwargs)


def test_the_sloppy_policy_slips_in_one_call_of_six_and_goes_on_from_what_came_of_it():
    env = make("turngym/Calculator-v0", split="train")
    policy = reference_policy("turngym/Calculator-v0", "sloppy")
    rng = np.random.default_rng(0)
    calls = slips = wrong = 0
    for seed in range(400):
        history = list(env.reset(seed=seed)[0])
        done = False
        while not done:
            action = policy(env.task, history, rng)
            observation, reward, done, _, _ = env.step(action)
            history += [action, *observation]
        answer = history[-1].text
        assert answer == next(m.text for m in reversed(history) if m.role == "tool")
        calls += sum(m.role == "tool" for m in history)
        wrong += reward == 0
        made = [json.loads(call.function.arguments) for m in history for call in m.tool_calls]
        came: dict[int, int] = {}
        for (a, op, b), call in zip(env.task.metadata["steps"], made, strict=True):
            meant = {"a": came.get(a, a), "op": op, "b": came.get(b, b)}
            slips += call != meant
            came[apply(a, op, b)] = apply(call["a"], call["op"], call["b"])
    assert 0.14 < slips / calls < 0.20
    assert 0.33 < wrong / 400 < 0.50
