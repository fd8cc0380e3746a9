import asyncio

import pytest
import verifiers.v1 as vf
from pydantic_config import BaseConfig

from turngym.envs import ToolCall, assistant
from turngym.envs.adapters.verifiers_env import VerifiersEnv
from turngym.envs.errors import ContractError, GradingError
from turngym.envs.tasks import iterate


class Data(vf.TaskData):
    answer: str


class Counts(vf.State):
    looked: int = 0


class Shelf(vf.Toolset[BaseConfig, Counts]):
    """A server whose own attribute and whose shared state both change."""

    async def setup(self):
        self.said = []

    @vf.tool
    async def look(self, word: str) -> str:
        """Look a word up.

        Args:
            word: the word.
        """
        self.state.looked += 1
        self.said.append(word)
        return f"{word}, after {len(self.said)} looks"


class Lookup(vf.Task[Data, Counts, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Shelf(BaseConfig())]

    @vf.reward(weight=0.75)
    async def exact(self, task, trace) -> float:
        said = trace.assistant_messages[-1].content or "" if trace.assistant_messages else ""
        return float(said == task.answer)

    @vf.reward(weight=0.25)
    async def used(self, trace) -> float:
        return float(trace.state.looked > 0)

    @vf.metric
    async def turns(self, trace) -> float:
        return trace.num_turns


class Words(vf.Taskset[Lookup, vf.TasksetConfig]):
    def load(self):
        for number in range(40):
            data = Data(
                prompt=f"word {number}?", system_prompt="Be brief.", answer=str(number), id=f"w{number}"
            )
            yield Lookup(data, self.config.task)


def make(**kwargs):
    return VerifiersEnv(Words(vf.TasksetConfig()), reward_range=(0.0, 1.0), **kwargs)


def look(word="a", call_id="c"):
    return assistant(None, ToolCall.of("shelf_look", {"word": word}, id=call_id))


def test_an_episode_with_tools_is_graded_by_the_task_s_own_functions():
    env = make()
    observation, info = env.reset(seed=3)
    assert [message.role for message in observation] == ["system", "user"]
    assert [spec.name for spec in info["tools"]] == ["shelf_look"]
    assert "answer" not in str(observation)
    (answer,), reward, over, *_ = env.step(look())
    assert (answer.text, reward, over) == ("a, after 1 looks", 0.0, False)
    _, reward, over, _, info = env.step(env.task.target["answer"])
    assert (reward, over) == (1.0, True)
    assert info["reward_components"] == {"exact": 1.0, "used": 1.0}
    assert info["metrics"] == {"turns": 2.0, "success": 1.0}
    env.reset(seed=3)
    _, reward, *_ = env.step(env.task.target["answer"])
    assert reward == 0.75  # state does not go over into the next episode


def test_splits_are_disjoint_and_follow_the_keys():
    env = make(test_share=0.5)
    ids = {split: {task.id for task in iterate(env.tasks, split)} for split in env.tasks.splits}
    assert len(ids["train"] | ids["test"]) == 40
    assert not ids["train"] & ids["test"]
    assert min(map(len, ids.values())) > 8
    again = make(test_share=0.5)
    assert {task.id for task in iterate(again.tasks, "test")} == ids["test"]


def test_a_wrong_call_is_answered_and_a_fork_goes_its_own_way():
    env = make()
    env.reset(seed=0)
    (answer,), *_ = env.step(assistant(None, ToolCall.of("shelf_look", {"no": 1})))
    assert "argument 'word' is missing" in answer.text
    env.step(look())
    twin, snapshot = env.fork(), env.snapshot()
    assert env.step(look("b"))[0][0].text == "b, after 2 looks"
    assert twin.step(look("c"))[0][0].text == "c, after 2 looks"
    env.restore(snapshot)
    assert env.step(look("d"))[0][0].text == "d, after 2 looks"
    assert [env.step("x")[1:3], twin.step("x")[1:3]] == [(0.25, True)] * 2


def test_max_turns_is_a_rule():
    env = make(max_turns=2)
    env.reset(seed=0)
    assert env.step(look())[2] is False
    _, reward, terminated, truncated, _ = env.step(look())
    assert (reward, terminated, truncated) == (0.25, True, False)


def test_a_stop_on_the_trace_ends_the_episode():
    class Impatient(Lookup):
        @vf.stop
        async def looked_twice(self, trace: vf.Trace) -> bool:
            return trace.state.looked >= 2

    class Set(Words):
        def load(self):
            return (Impatient(task.data, self.config.task) for task in super().load())

    env = VerifiersEnv(Set(vf.TasksetConfig()))
    env.reset(seed=0)
    assert env.step(look())[2] is False
    assert env.step(look())[2] is True


class Broken(Lookup):
    @vf.reward
    async def exact(self, trace) -> float:
        raise RuntimeError("no such table")


class Boxed(Lookup):
    NEEDS_CONTAINER = True

    async def setup(self, trace, runtime):
        pass

    @vf.reward
    async def exact(self, trace, runtime) -> float:
        return 1.0


def taskset_of(kind, endless=False):
    class Set(Words):
        INFINITE = endless

        def load(self):
            return (kind(task.data, self.config.task) for task in Words.load(self))

    return Set(vf.TasksetConfig())


def test_a_verifier_that_raises_is_a_failure_and_no_score():
    env = VerifiersEnv(taskset_of(Broken))
    env.reset(seed=0)
    with pytest.raises(GradingError, match="no such table"):
        env.step("1")


def test_a_reward_beyond_the_declared_range_is_a_failure():
    env = VerifiersEnv(Words(vf.TasksetConfig()), reward_range=(0.0, 0.5))
    env.reset(seed=0)
    with pytest.raises(GradingError, match=r"0\.75, outside"):
        env.step(env.task.target["answer"])


def test_what_is_missing_is_named_at_once():
    with pytest.raises(ContractError, match=r"a container; .*'setup'; .*the reward 'exact'"):
        VerifiersEnv(taskset_of(Boxed))
    with pytest.raises(ContractError, match="endless"):
        VerifiersEnv(taskset_of(Lookup, endless=True))
    assert (
        sum(map(VerifiersEnv(taskset_of(Lookup, endless=True), limit=5).tasks.size, ("train", "test"))) == 5
    )


def test_both_faces_agree():
    sync, awaited = make(), make()

    async def play():
        opening = await awaited.areset(seed=1)
        return opening, await awaited.astep(look()), await awaited.astep("7")

    opening, first, last = asyncio.run(play())
    assert sync.reset(seed=1) == opening
    assert sync.step(look()) == first
    assert sync.step("7") == last
