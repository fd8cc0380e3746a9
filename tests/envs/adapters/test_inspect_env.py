import asyncio

import pytest
from inspect_ai import Task
from inspect_ai.agent import as_solver, react
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Score, accuracy, exact, match, scorer
from inspect_ai.solver import basic_agent, generate, solver, system_message, use_tools
from inspect_ai.tool import tool

from turngym.envs import ToolCall, assistant
from turngym.envs.adapters.inspect_env import InspectEnv
from turngym.envs.errors import ContractError, GradingError


@tool
def add():
    async def execute(x: int, y: int):
        """Add two numbers.

        Args:
            x: one.
            y: the other.
        """
        return x + y

    return execute


@scorer(metrics=[accuracy()])
def brief():
    async def score(state, target):
        return Score(value=len(state.output.completion) < 5)

    return score


def samples(count=12):
    return MemoryDataset([Sample(input=f"1+{n}?", target=str(1 + n), id=f"s{n}") for n in range(count)])


def task_of(solve, scorers=None, **kwargs):
    return Task(
        dataset=samples(), solver=solve, scorer=scorers or match(location="exact"), name="sums", **kwargs
    )


def call(name, call_id="c0", **arguments):
    return assistant(None, ToolCall.of(name, arguments, id=call_id))


def test_a_plain_question_is_one_turn():
    env = InspectEnv(task_of(generate()))
    observation, info = env.reset(options={"task": "s2"})
    assert [(m.role, m.text) for m in observation] == [("user", "1+2?")]
    assert info["tools"] == ()
    assert env.step("3")[1:3] == (1.0, True)
    env.reset(options={"task": "s2"})
    _, reward, terminated, _, info = env.step("4")
    assert (reward, terminated, info["metrics"]) == (0.0, True, {"success": 0.0})
    env.close()


def test_a_solver_with_tools_asks_again_after_every_call():
    env = InspectEnv(task_of([system_message("Add."), use_tools(add()), generate()]))
    observation, info = env.reset(options={"task": "s2"})
    assert [m.role for m in observation] == ["system", "user"]
    assert info["tools"][0].function.parameters["properties"]["x"]["type"] == "integer"
    (answer,), *_ = env.step(call("add", x=1, y=2))
    assert (answer.role, answer.text, answer.tool_call_id) == ("tool", "3", "c0")
    (wrong,), *_ = env.step(assistant(None, ToolCall.of("add", "{", id="c1")))
    assert (wrong.tool_call_id, "JSON" in wrong.text) == ("c1", True)
    (unknown,), *_ = env.step(call("nothing", "c2"))
    assert "nothing" in unknown.text
    assert env.step("3")[1:3] == (1.0, True)
    env.close()


@pytest.mark.parametrize(
    "agent", [lambda: basic_agent(tools=[add()]), lambda: as_solver(react(tools=[add()]))]
)
def test_agents_of_inspect_s_own_play_to_their_submission(agent):
    env = InspectEnv(task_of(agent()))
    env.reset(options={"task": "s4"})
    assert {spec.name for spec in env.tools} == {"add", "submit"}
    observation, *_ = env.step("Let me think.")
    assert observation[0].role == "user"
    env.step(call("add", x=1, y=4))
    _, reward, terminated, _, info = env.step(call("submit", "c1", answer="5"))
    assert (reward, terminated, info["metrics"]) == (1.0, True, {"success": 1.0})
    env.close()


def test_a_fork_repeats_what_was_said():
    env = InspectEnv(task_of(basic_agent(tools=[add()])))
    env.reset(options={"task": "s4"})
    env.step(call("add", x=1, y=4))
    twin, snapshot = env.fork(), env.snapshot()
    right, wrong = call("submit", "c1", answer="5"), call("submit", "c1", answer="6")
    assert env.step(wrong)[1] == 0.0
    assert twin.step(right)[1] == 1.0
    env.restore(snapshot)
    assert env.step(right)[1] == 1.0
    for one in (env, twin):
        one.close()


def test_the_first_scorer_pays_and_weights_say_otherwise():
    env = InspectEnv(task_of(generate(), [exact(), brief()]))
    env.reset(options={"task": "s1"})
    _, reward, *_, info = env.step("2")
    assert (reward, info["reward_components"], info["metrics"]) == (
        1.0,
        {"exact": 1.0},
        {"brief": 1.0, "success": 1.0},
    )
    env = InspectEnv(task_of(generate(), [exact(), brief()]), weights={"exact": 0.5, "brief": 0.5})
    env.reset(options={"task": "s1"})
    assert env.step("two")[1] == 0.5
    env = InspectEnv(task_of(generate()), weights={"nothing": 1.0})
    env.reset()
    with pytest.raises(GradingError, match="no score 'nothing'"):
        env.step("x")


def test_many_episodes_wait_side_by_side():
    task = task_of(basic_agent(tools=[add()]))
    envs = [InspectEnv(task) for _ in range(40)]

    async def play():
        await asyncio.gather(*(env.areset(options={"task": f"s{n % 12}"}) for n, env in enumerate(envs)))
        answers = [call("submit", answer=str(1 + n % 12)) for n in range(len(envs))]
        results = await asyncio.gather(*(env.astep(a) for env, a in zip(envs, answers, strict=True)))
        await asyncio.gather(*(env.aclose() for env in envs))
        return [result[1] for result in results]

    assert asyncio.run(asyncio.wait_for(play(), 60)) == [1.0] * 40


def test_max_turns_is_a_rule():
    env = InspectEnv(task_of(basic_agent(tools=[add()])), max_turns=2)
    env.reset()
    assert env.step("hm")[2] is False
    assert env.step("hm")[1:4] == (0.0, True, False)
    env.close()


@solver
def forgetful():
    async def solve(state, generate):
        state = await generate(state)
        state.messages = state.messages[-1:]
        return await generate(state)

    return solve


@scorer(metrics=[accuracy()])
def broken():
    async def score(state, target):
        raise RuntimeError("no such table")

    return score


def test_what_cannot_be_is_said():
    with pytest.raises(ContractError, match="no scorer"):
        InspectEnv(Task(dataset=samples(), solver=generate()))
    with pytest.raises(ContractError, match="sandboxes"):
        InspectEnv(task_of(generate(), sandbox="local"))
    env = InspectEnv(task_of(forgetful()))
    env.reset()
    with pytest.raises(ContractError, match="rewrites the conversation"):
        env.step("x")
    env = InspectEnv(task_of(generate(), broken()))
    env.reset()
    with pytest.raises(GradingError, match="no such table"):
        env.step("x")
