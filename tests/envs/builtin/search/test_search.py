import json
import pickle

import numpy as np
import pytest

from turngym.envs import ToolCall, assistant, check, make, reference_policy
from turngym.envs.builtin.search.environment import Search
from turngym.envs.builtin.search.policies import expert, random_reader
from turngym.envs.tasks import iterate

ID = "turngym/Search-v0"


def play(env, policy, task, seed=0):
    env.reset(seed=seed, options={"task": task})
    rng, paid, over = np.random.default_rng(seed), 0.0, False
    while not over:
        _, reward, over, truncated, info = env.step(policy(task, tuple(env.history), rng))
        paid += reward
        assert not truncated
    return paid, info["metrics"]


def final(env, answer=None, sources=None):
    target = env.task.target
    cited = ", ".join(target["sources"] if sources is None else sources)
    return f"Answer: {target['answer'] if answer is None else answer}\nSources: {cited}"


def test_an_expert_episode_word_by_word():
    env = make(ID, split="test")
    task = next(t for t in iterate(env.tasks, "test", 200) if t.tags == ("bridge", "2 hops"))
    observation, info = env.reset(seed=0, options={"task": task})
    assert [message.role for message in observation] == ["system", "user"]
    assert "Answer: <the name or number>\nSources: <ids" in observation[0].text
    search, read = (tool.function for tool in info["tools"])
    assert search.parameters["properties"]["limit"] == {
        "default": 5, "description": "the most documents to show.", "maximum": 20, "minimum": 1, "type": "integer",
    }  # fmt: skip
    assert read.parameters["required"] == ["document_id"]
    seen = []
    over = False
    while not over:
        action = expert(task, tuple(env.history), None)
        seen += [call.name for call in action.tool_calls]
        observation, paid, over, _, info = env.step(action)
    assert set(seen) == {"search", "read"}
    assert (paid, info["reward_components"]) == (1.0, {"correct": 1.0, "cited": 1.0})
    assert info["metrics"] == {
        "success": 1.0, "form": 1.0, "precision": 1.0, "recall": 1.0, "calls": float(len(seen)), "errors": 0.0,
    }  # fmt: skip


def test_the_expert_reaches_the_maximum_on_two_hundred_random_test_tasks():
    env = make(ID, split="test")
    for index in np.random.default_rng(0).choice(10_000, size=200, replace=False):
        paid, metrics = play(env, expert, env.tasks.at("test", int(index)))
        assert (paid, metrics["success"], metrics["errors"]) == (1.0, 1.0, 0.0)


@pytest.mark.parametrize(
    "arguments", [{"size": 200, "world_seed": 9}, {"size": 3000, "kinds": ["comparison"], "least_hops": 3}]
)
def test_the_expert_solves_other_worlds(arguments):
    env = Search(**arguments)
    assert all(play(env, expert, env.tasks.at("test", index))[0] == 1.0 for index in range(40))


def test_the_expert_knows_only_what_the_tools_say():
    env = make(ID)
    for task in iterate(env.tasks, "train", 40):
        blind = task.model_copy(update={"target": None})
        env.reset(options={"task": task})
        over = False
        while not over:
            _, paid, over, _, _ = env.step(expert(blind, tuple(env.history), None))
        assert paid == 1.0


def test_what_the_reward_is_made_of():
    env = make(ID)
    task = next(t for t in iterate(env.tasks, "train", 200) if t.tags[1] == "2 hops")
    first, second = task.target["sources"]
    cases = [
        ({}, 1.0, 1.0),
        ({"sources": [first]}, 0.5 + 0.5 * 2 / 3, 0.0),
        ({"sources": [second, first]}, 1.0, 1.0),
        ({"sources": ["d99999"]}, 0.5, 0.0),
        ({"sources": [first, second, "d99999"]}, 0.5 + 0.5 * 0.8, 0.0),
        ({"sources": [f"d{n:04}" for n in range(100)]}, None, 0.0),
        ({"answer": "something else"}, 0.0, 0.0),
    ]  # fmt: skip
    for changed, expected, success in cases:
        env.reset(options={"task": task})
        _, paid, over, _, info = env.step(final(env, **changed))
        assert over
        assert expected is None or paid == pytest.approx(expected)
        assert (paid < 0.6 if expected is None else True, info["metrics"]["success"]) == (True, success)


def test_null_earns_nothing_and_prose_is_no_answer():
    env = make(ID)
    for text in (
        "",
        "{}",
        "I think that it is this.\n{}",
        "{}\nBut I am not sure.",
        "{}\n{}",
        "```\n{}\n```",
    ):
        env.reset(seed=1)
        _, paid, over, _, info = env.step(
            text.replace("{}", final(env)) if text != "{}" else str(env.task.target)
        )
        assert (paid, over, info["metrics"]["form"]) == (0.0, True, 0.0)
    assert play(env, reference_policy(ID, "null"), env.tasks.at("test", 0))[0] == 0.0


def test_what_the_tools_say():
    env = make(ID)
    env.reset(seed=0)
    document = env.library.documents[42]
    calls = [
        ToolCall.of("search", {"query": document.title, "limit": 1}, id="a"),
        ToolCall.of("read", {"document_id": "d0042"}, id="b"),
        ToolCall.of("read", {"document_id": "d42"}, id="c"),
        ToolCall.of("search", {"query": "?"}, id="d"),
        ToolCall.of("search", {"query": "x", "limit": 0}, id="e"),
    ]
    texts = [message.text for message in env.step(assistant(None, *calls))[0]]
    assert texts[0].startswith(f"d0042 | {document.title} | ")
    assert texts[1] == f"{document.title}\n{document.text}"
    assert texts[2] == "Error: read failed: there is no document 'd42'; a search shows the ids."
    assert texts[3] == "No document has any of these words."
    assert texts[4].startswith("Error: argument 'limit': Input should be greater than or equal to 1")


def test_the_last_turn_terminates():
    env = make(ID, max_turns=2)
    env.reset(seed=0)
    call = assistant(None, ToolCall.of("search", {"query": "town"}))
    assert env.step(call)[1:4] == (0.0, False, False)
    assert env.step(call)[1:4] == (0.0, True, False)


def test_there_are_ten_thousand_different_questions_and_none_in_both_splits():
    tasks = make(ID).tasks
    seen = {split: {task.prompt for task in iterate(tasks, split, 6500)} for split in tasks.splits}
    assert (tasks.size("train"), tasks.size("test")) == (None, 10_000)
    assert len(seen["train"] | seen["test"]) >= 10_000
    assert not seen["train"] & seen["test"]


def test_the_same_question_in_another_order_is_the_same_question():
    tasks = Search(size=200, kinds=["comparison"], least_hops=3, most_hops=3).tasks
    texts, splits = {}, {}
    for split in tasks.splits:
        for task in iterate(tasks, split, 2000):
            query = task.metadata["query"]
            content = query["form"], frozenset(json.dumps(branch) for branch in query["branches"])
            assert texts.setdefault(content, task.prompt) == task.prompt
            assert splits.setdefault(content, split) == split


def test_a_thousand_random_episodes_raise_nothing_and_are_no_mere_noise():
    env = make(ID)
    found = read = answered = 0
    for number in range(1000):
        task = env.tasks.at("train", number % 300)
        paid, metrics = play(env, random_reader, task, seed=number)
        assert 0.0 <= paid <= 1.0
        assert metrics["success"] <= paid
        texts = [message.text for message in env.history if message.role == "tool"]
        found += any(" | " in text for text in texts)
        read += any(text.partition("\n")[0] in env.library.by_title for text in texts)
        answered += metrics["form"] == 1.0
    assert (found > 500, read > 200, answered > 150) == (True, True, True)


def test_forks_share_the_library_and_pickled_tasks_find_it():
    env = make(ID)
    env.reset(seed=3)
    env.step(assistant(None, ToolCall.of("search", {"query": "town"})))
    twin = env.fork()
    assert twin.library is env.library
    assert twin.step(final(env)) == env.step(final(env))
    assert pickle.loads(pickle.dumps(env.tasks)).at("test", 5) == env.tasks.at("test", 5)


def test_two_worlds_share_nothing():
    one, other = (set(Search(world_seed=seed, size=400).library.world.kinds) for seed in (0, 1))
    assert not one & other


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 199}, "size is 200 to 20,000"), ({"size": 20_001}, "size is"),
        ({"kinds": ["riddle"]}, "kinds are some of"),
        ({"kinds": []}, "kinds are some of"), ({"least_hops": 0}, "expected 1 ≤ least_hops"),
        ({"most_hops": 5}, "most_hops ≤ 4"), ({"least_hops": 3, "most_hops": 2}, "expected 1 ≤"),
        ({"kinds": ["comparison"]}, "expected 2 ≤ least_hops"),
    ],
)  # fmt: skip
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Search(**arguments)


@pytest.mark.parametrize("kind", ["bridge", "comparison"])
@pytest.mark.parametrize("hops", [2, 3, 4])
def test_arguments_choose_the_questions(kind, hops):
    tasks = Search(kinds=[kind], least_hops=hops, most_hops=hops).tasks
    assert {task.tags for task in iterate(tasks, "test", 30)} == {(kind, f"{hops} hops")}
    assert all(len(task.target["sources"]) == hops for task in iterate(tasks, "test", 30))


def test_tasks_are_plain_json():
    for task in iterate(make(ID).tasks, "train", 20):
        assert json.loads(json.dumps(task.model_dump(mode="json")))["target"] == task.target


def test_it_keeps_the_laws():
    assert [result for result in check(ID) if not result.ok] == []
