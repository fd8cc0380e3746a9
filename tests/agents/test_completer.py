"""Any agent answers any conversation; what goes wrong under it is infrastructure's failure."""

from __future__ import annotations

import asyncio

import pytest

from turngym.agents.completer import AgentCompleter, completer
from turngym.agents.errors import BadSpec, EngineError
from turngym.agents.protocols import Sampling
from turngym.agents.simple import ScriptedAgent
from turngym.agents.types import Action
from turngym.envs import Completer, ToolEnv, assistant, questions, reference_policy, user
from turngym.envs.errors import InfrastructureError
from turngym.envs.judge import judge


def test_an_agent_answers_a_conversation_and_its_noise_follows_from_that():
    started = []

    def script(episode):
        started.append(episode)
        return [f"answer {episode.noise.task[:4]}"]

    model = AgentCompleter(ScriptedAgent(script), seed=5)
    assert isinstance(model, Completer)

    async def main():
        asked = [[user("a")], [user("b")], [user("a"), assistant("x"), user("a")], [user("a")]]
        return await asyncio.gather(*(model.complete(messages) for messages in asked))

    answers = asyncio.run(main())
    assert answers[0] == answers[3]
    assert len({answer.text for answer in answers}) == 3
    assert {episode.noise.run_seed for episode in started} == {5}
    assert all(episode.task is None and episode.tools == () for episode in started)


def test_failures_and_cut_answers_are_infrastructure():
    def broken(episode):
        raise EngineError("out of memory")

    with pytest.raises(InfrastructureError, match="scripted gave no answer: out of memory"):
        asyncio.run(AgentCompleter(ScriptedAgent(broken)).complete([user("a")]))
    cut = ScriptedAgent([Action(assistant("and th"), finish_reason="length")])
    with pytest.raises(InfrastructureError, match="was cut: raise its max_tokens"):
        asyncio.run(AgentCompleter(cut).complete([user("a")]))


def test_only_models_complete():
    for spec in ("expert", "null"):
        with pytest.raises(BadSpec, match=f"'{spec}' names no model"):
            completer(spec)


def test_a_local_model_completes():
    async def main():
        model = completer("tiny", sampling=Sampling(temperature=1.0, max_tokens=200), slots=1)
        try:
            return [await model.complete([user("Compute 1 + 1")]) for _ in range(2)]
        except InfrastructureError as error:  # random weights may never stop
            return [str(error)] * 2
        finally:
            await model.close()
            await model.close()

    first, again = asyncio.run(main())
    assert first == again


def test_a_judge_in_an_environment():
    def script(episode):
        return ['{"true": 10}']

    quality = judge(AgentCompleter(ScriptedAgent(script)), {"true": "It is true."})
    env = ToolEnv(tasks=questions(train={"?": "x"}), rewards=[quality])
    env.reset(seed=0)
    assert env.step("x")[1] == 1.0
    assert reference_policy("turngym/Calculator-v0", "null") is not None
