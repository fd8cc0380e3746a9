import re

import pytest

from turngym.envs import ListTasks, Task, ToolCall, ToolEnv, assistant, tool, user
from turngym.envs.adapters.trl_rewards import trl_reward
from turngym.envs.errors import ContractError, GradingError, InvalidReward


def task(name, answer):
    return Task(id=name, prompt=(user("6*7?"),), target=answer, metadata={"solution": answer, "level": 2})


TASKS = ListTasks(train=[task("a", "42")], test=[task("b", "43")])


@tool
def look() -> str:
    """Look."""
    return "seen"


def play(*rewards, actions=("The answer is 42",)):
    env = ToolEnv(tasks=TASKS, rewards=rewards, tools=[look])
    env.reset(seed=0)
    for action in actions:
        _, reward, terminated, _, info = env.step(action)
    assert terminated
    return reward, info


def test_a_function_gets_its_columns_and_the_conversation_in_lists_of_one():
    seen = {}

    def accuracy(completions, solution, **kwargs):
        seen.update(kwargs, completions=completions, solution=solution)
        return [
            1.0 if re.search(s, c[-1]["content"]) else 0.0 for c, s in zip(completions, solution, strict=True)
        ]

    calls = assistant(None, ToolCall.of("look", {}))
    reward, info = play(trl_reward(accuracy), actions=(calls, "it is 42"))
    assert (reward, info["reward_components"]) == (1.0, {"accuracy": 1.0})
    assert [message["role"] for message in seen["completions"][0]] == ["assistant", "tool", "assistant"]
    assert seen["prompts"] == [[{"role": "user", "content": "6*7?"}]]
    assert (seen["solution"], seen["level"], seen["target"]) == (["42"], [2], ["42"])


def test_a_function_without_keyword_arguments_gets_what_it_names():
    def length(completions):
        return [min(1.0, len(completions[0]) / 100)]

    assert play(trl_reward(length, conversational=False), actions=("x" * 50,))[0] == 0.5


def test_columns_can_come_from_elsewhere_under_other_names():
    def exact(completions, answer, number):
        return [float(completions[0] == answer[0] and number == ["a"])]

    graded = trl_reward(exact, columns={"answer": "target", "number": "id"}, conversational=False, weight=2.0)
    assert play(graded, actions=("42",))[0] == 2.0
    with pytest.raises(GradingError, match="no 'nothing' in its metadata"):
        play(trl_reward(exact, columns={"answer": "nothing", "number": "id"}))


def test_an_asynchronous_function_is_awaited_and_none_pays_nothing():
    async def never(prompts, completions, **_):
        return [None]

    assert play(trl_reward(never)) == (0.0, play(trl_reward(never))[1])


@pytest.mark.parametrize("result", [[], [1.0, 1.0], 1.0, "1"])
def test_anything_but_one_number_is_a_failure_of_the_verifier(result):
    def odd(completions):
        return result

    with pytest.raises(GradingError, match="not a list of one number"):
        play(trl_reward(odd))


def test_values_out_of_range_and_token_ids_are_refused():
    def big(completions):
        return [1.5]

    def tokens(completions, completion_ids):
        return [1.0]

    with pytest.raises(InvalidReward, match=r"1\.5"):
        play(trl_reward(big))
    with pytest.raises(ContractError, match="completion_ids"):
        trl_reward(tokens)
