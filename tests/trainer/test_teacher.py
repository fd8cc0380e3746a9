from __future__ import annotations

import pytest

from turngym.agents.chat import ChatAgent
from turngym.agents.errors import TemplateError
from turngym.agents.models.tiny_tokenizer import tiny_tokenizer
from turngym.agents.protocols import Generation, NoiseKey
from turngym.agents.rendering import choose_renderer
from turngym.agents.rollout import rollout
from turngym.agents.sync import run_sync
from turngym.envs import make, reference_policy
from turngym.envs.messages import ToolCall, assistant
from turngym.trainer.teacher import TeacherAgent, _Dictionary

CALCULATOR = "turngym/Calculator-v0"


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer(model_max_length=1024)


@pytest.fixture(scope="module")
def renderer(tokenizer):
    return choose_renderer(tokenizer)


def _play(agent, env_id=CALCULATOR, task="train-0"):
    env = make(env_id)
    return run_sync(lambda: rollout(env, agent, task=task, seed=0, noise=NoiseKey(0, 0, task, 0)))


@pytest.mark.parametrize("system_prompt", [None, "Be brief."])
def test_an_episode_holds_the_ids_that_a_model_saying_the_same_would_make(renderer, system_prompt):
    teacher = TeacherAgent(
        reference_policy(CALCULATOR, "expert"),
        renderer,
        "expert",
        max_context=1024,
        system_prompt=system_prompt,
    )
    taught = _play(teacher)
    assert taught.reward == 1.0
    assert taught.trainable

    class Parrot:
        """An engine that samples what the teacher said, turn by turn."""

        policy_version, max_context = 0, 1024

        def __init__(self):
            self.turns = iter(taught.turns)

        async def generate(self, request):
            ids = next(self.turns).action.tokens.action_ids
            return Generation(ids, (0.0,) * len(ids), "stop", 0)

        async def release(self, session):
            pass

    said = _play(ChatAgent(Parrot(), renderer, system_prompt=system_prompt))
    assert said.reward == 1.0
    assert said.segments() == taught.segments()


def test_only_what_the_policy_says_is_an_action_and_every_turn_ends_with_its_token(renderer, tokenizer):
    teacher = TeacherAgent(reference_policy(CALCULATOR, "expert"), renderer, "expert", max_context=1024)
    trajectory = _play(teacher)
    (segment,) = trajectory.segments()
    actions = [i for i, is_action in zip(segment.ids, segment.is_action, strict=True) if is_action]
    turns = [turn.action.tokens.action_ids for turn in trajectory.turns]
    assert actions == [i for ids in turns for i in ids]
    assert all(ids[-1] in renderer.stop_ids for ids in turns)
    assert not any(i in renderer.stop_ids for ids in turns for i in ids[:-1])
    assert tokenizer.decode(turns[-1][:-1]) == trajectory.turns[-1].action.message.content
    assert '"calculator"' in tokenizer.decode(turns[0])


def test_a_message_without_room_is_cut_and_the_episode_truncated(renderer):
    teacher = TeacherAgent(reference_policy(CALCULATOR, "expert"), renderer, "expert", max_context=1024)
    size = len(renderer.render(_play(teacher).prompt, make(CALCULATOR).tools))
    short = TeacherAgent(reference_policy(CALCULATOR, "expert"), renderer, "expert", max_context=size + 5)
    trajectory = _play(short)
    assert (trajectory.outcome.kind, trajectory.outcome.cause) == ("truncated", "tokens")
    assert trajectory.action_token_count() == 5


def test_a_message_that_the_template_cannot_say_is_refused(renderer):
    class Forgetful:
        name, stop_ids = "forgetful", renderer.stop_ids

        def render(self, messages, tools):
            return renderer.render(messages, tools)

        def parse(self, ids, tools):
            return assistant("something else")

    with pytest.raises(TemplateError, match="reads back as"):
        _Dictionary(Forgetful()).spell(assistant("hello"), ())

    class Endless(Forgetful):
        stop_ids = (99_999,)

    with pytest.raises(TemplateError, match="no finished turn"):
        _Dictionary(Endless()).spell(assistant(None, ToolCall.of("calculator", {"a": 1})), ())
