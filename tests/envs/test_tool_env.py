from __future__ import annotations

import asyncio
import threading

import pytest

from turngym.envs import ToolCall, ToolEnv, assistant, questions, reward, system, tool, user
from turngym.envs.errors import ContractError, EpisodeOver, GradingError, InfrastructureError


def call(name: str, arguments: str = "{}", id: str = "c") -> ToolCall:
    return ToolCall.of(name, arguments, id=id)


def test_an_episode(desk):
    desk.reset(options={"task": "train-0"})
    observation, paid, terminated, truncated, info = desk.step(
        assistant(None, call("double", '{"number": 1}', "x"), call("slow_double", '{"number": 4}', "y"))
    )
    assert [(m.role, m.tool_call_id, m.content) for m in observation] == [
        ("tool", "x", "2"),
        ("tool", "y", "8"),
    ]
    assert (paid, terminated, truncated) == (-0.1, False, False)
    assert info == {"reward_components": {"cost": 1.0}}
    observation, paid, terminated, truncated, info = desk.step("2")
    assert (observation, paid, terminated, truncated) == ((), 0.9, True, False)
    assert info["reward_components"] == {"cost": 1.0, "correct": 1.0}
    assert info["metrics"] == {"success": 1.0, "length": 0.1, "calls": 2.0, "errors": 0.0}


def test_every_call_is_answered_in_order(desk):
    desk.reset(seed=0)
    calls = [
        call("nothing", id="1"),
        call("explode", id="2"),
        call("double", "{", "3"),
        call("double", '{"number":2}', "4"),
    ]
    observation, *_ = desk.step(assistant("thinking aloud", *calls))
    assert [message.tool_call_id for message in observation] == ["1", "2", "3", "4"]
    assert [message.text.startswith("Error") for message in observation] == [True, True, True, False]
    assert desk.step("nonsense")[4]["metrics"] == {"success": 0.0, "length": 0.8, "calls": 4.0, "errors": 3.0}


def test_law_06_running_out_of_turns_is_a_rule_and_terminates(desk):
    desk.reset(options={"task": "train-0"})
    results = [desk.step(assistant(None, call("double", '{"number": 1}'))) for _ in range(4)]
    assert [result[2] for result in results] == [False, False, False, True]
    assert not any(result[3] for result in results)
    observation, paid, _, _, info = results[-1]
    assert observation[0].text == "2"  # still answered
    assert paid == -0.1
    assert info["metrics"]["success"] == 0.0


def test_counters_start_afresh_even_if_the_author_forgets_super_reset():
    class Forgetful(ToolEnv):
        tasks = questions(train={"q": "a"})

        def reset(self, *, seed=None, options=None):
            return self.task.prompt, {}

        @reward
        def correct(self, answer: str, target: str) -> float:
            return float(answer == target)

    env = Forgetful()
    for _ in range(2):
        env.reset(seed=0)
        env.step(assistant(None, call("x")))
        assert env.step("a")[4]["metrics"] == {"success": 1.0, "calls": 1.0, "errors": 1.0}


def test_an_answer_is_forgotten_with_its_episode(desk):
    desk.reset(options={"task": "train-0"})
    assert desk.step("2")[4]["metrics"]["success"] == 1.0
    desk.reset(options={"task": "train-0"})
    for _ in range(4):
        result = desk.step(assistant(None, call("explode")))
    assert result[2]
    assert result[4]["metrics"]["success"] == 0.0


def test_infrastructure_failures_end_the_episode_without_a_score(desk):
    desk.reset(seed=0)
    with pytest.raises(InfrastructureError):
        desk.step(assistant(None, call("outage")))
    with pytest.raises(EpisodeOver, match="failed"):
        desk.step("2")


def test_async_tools_make_it_natively_async(desk):
    async def play():
        await desk.areset(options={"task": "train-0"})
        await desk.astep(assistant(None, call("slow_double", '{"number": 1}')))
        return await desk.astep("2")

    assert desk.native_async
    assert asyncio.run(play())[1] == 0.9
    assert not type(desk)(only_tools=["double"]).native_async


def test_sync_tools_run_in_the_callers_thread():
    class Where(ToolEnv):
        tasks = questions(train={"q": "a"})

        @tool
        def thread(self) -> int:
            """Which thread this is."""
            return threading.get_ident()

        @reward
        def nothing(self) -> float:
            return 0.0

    env = Where()
    env.reset(seed=0)
    assert env.step(assistant(None, call("thread")))[0][0].text == str(threading.get_ident())


def test_the_function_form():
    @tool
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    def correct(answer: str, target: str) -> float:
        return float(answer == target)

    env = ToolEnv(
        tasks=questions(train={"2?": "2"}),
        tools=[double],
        rewards=[correct],
        system_prompt="Be brief.",
        max_turns=3,
    )
    observation, info = env.reset(seed=0)
    assert observation == (system("Be brief."), user("2?"))
    assert [spec.name for spec in info["tools"]] == ["double"]
    assert env.step(assistant(None, call("double", '{"number": 1}')))[0][0].text == "2"
    assert env.step("2")[1] == 1.0
    assert (env.reward_range, env.max_turns) == ((0.0, 1.0), 3)


def test_no_rewards_no_environment():
    with pytest.raises(ContractError, match="has no rewards"):
        ToolEnv(tasks=questions(train={"q": "a"}))


def test_a_failing_reward_raises():
    def broken(answer: str) -> float:
        return 1 / 0

    env = ToolEnv(tasks=questions(train={"q": "a"}), rewards=[broken])
    env.reset(seed=0)
    with pytest.raises(GradingError, match="'broken' of ToolEnv failed: ZeroDivisionError"):
        env.step("a")


def test_success_is_a_reward_of_that_name_or_the_maximum():
    def half(answer: str) -> float:
        return 0.5

    @reward(weight=0)
    def success(answer: str) -> float:
        return float(answer == "a")

    @reward(when="turn")
    def each() -> float:
        return 1.0

    def metrics(*rewards):
        env = ToolEnv(tasks=questions(train={"q": "a"}), rewards=rewards)
        env.reset(seed=0)
        return env.step("a")[4]["metrics"]

    assert metrics(half)["success"] == 0.0
    assert metrics(half, success)["success"] == 1.0
    assert "success" not in metrics(each)


def test_forks_share_tools_and_call_their_own_methods():
    class Counter(ToolEnv):
        tasks = questions(train={"q": "2"})

        def reset(self, *, seed=None, options=None):
            self.state = {"n": 0}
            return super().reset(seed=seed, options=options)

        @tool
        def count(self) -> int:
            """One more."""
            self.state["n"] += 1
            return self.state["n"]

        @reward
        def reached(self, state: dict, target: str) -> float:
            return float(state["n"] == int(target))

    env = Counter()
    env.reset(seed=0)
    env.step(assistant(None, call("count")))
    twin = env.fork()
    assert twin.toolbox is env.toolbox
    assert twin.step(assistant(None, call("count")))[0][0].text == "2"
    assert twin.step("")[1] == 1.0
    assert env.state == {"n": 1}
    assert env.step("")[1] == 0.0


class Talk(ToolEnv):
    """Somebody replies to what is said, until the word is said."""

    tasks = questions(train={"Hello?": "bye"})
    max_turns = 3

    @tool
    def look(self) -> str:
        """Look around."""
        return "nothing"

    async def hear(self, action):
        if self.hear_waits:
            await asyncio.sleep(0)
        return (user(f"You said {action.text}"),), action.text == self.task.target

    @reward
    def correct(self, answer: str, target: str) -> float:
        return float(answer == target)

    @reward(weight=-0.25, when="turn")
    def cost(self) -> float:
        return 1.0


class QuickTalk(Talk):
    hear_waits = False


@pytest.mark.parametrize("cls", [Talk, QuickTalk])
def test_somebody_may_reply_to_a_message_without_calls(cls):
    env = cls()
    assert env.native_async is (cls is Talk)
    env.reset(seed=0)
    assert env.step("red") == (
        (user("You said red"),), -0.25, False, False, {"reward_components": {"cost": 1.0}},
    )  # fmt: skip
    observation, paid, over, _, info = env.step("bye")
    assert (observation, paid, over) == ((user("You said bye"),), 0.75, True)
    assert info["metrics"] == {"success": 1.0, "calls": 0.0, "errors": 0.0}


def test_law_06_the_last_turn_ends_a_talk_too_and_the_reply_is_still_given():
    env = QuickTalk()
    env.reset(seed=0)
    env.step("red")
    env.step(assistant("aside", call("look")))
    observation, _, terminated, truncated, info = env.step("blue")
    assert (observation, terminated, truncated) == ((user("You said blue"),), True, False)
    assert info["metrics"]["success"] == 0.0
    assert env.answer == "blue"


def test_without_tools_each_call_is_answered_once():
    def any_answer(answer: str) -> float:
        return 1.0

    env = ToolEnv(tasks=questions(train={"a?": "b"}, test={"c?": "d"}), rewards=[any_answer])
    env.reset(seed=0)
    observation, *_ = env.step(assistant(None, ToolCall.of("x", {}, id="1"), ToolCall.of("y", {}, id="2")))
    assert [message.tool_call_id for message in observation] == ["1", "2"]
