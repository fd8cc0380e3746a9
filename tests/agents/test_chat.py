"""The chat agent and its player: prompts, limits, noise, ids of calls, system prompts, segments, cleanup."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from turngym.agents.bridge import TemplateBridge
from turngym.agents.chat import ChatAgent, ChatPlayer
from turngym.agents.description import description
from turngym.agents.errors import EngineError, TemplateError
from turngym.agents.protocols import Agent, Engine, Player, Renderer, Sampling
from turngym.agents.rendering import choose_renderer
from turngym.agents.simple import ScriptedAgent
from turngym.agents.types import Action
from turngym.envs.messages import Message, ToolCall, assistant, system, tool_result, user

from .zoo import LOOKUP, ScriptedEngine, episode_start, zoo_tokenizer

SAMPLING = Sampling(max_tokens=64)
CALL_TEXT = '<tool_call>\n{"name": "lookup", "arguments": {"word": "x"}}\n</tool_call>'


def ids_of(text: str, name: str = "chatml_tools") -> tuple[int, ...]:
    return tuple(zoo_tokenizer(name).encode(text, add_special_tokens=False))


def text_of(ids: Iterable[int], name: str = "chatml_tools") -> str:
    return str(zoo_tokenizer(name).decode(list(ids), skip_special_tokens=False))


def agent_for(
    *script: str,
    name: str = "chatml_tools",
    max_context: int = 10_000,
    sampling: Sampling = SAMPLING,
    **options: Any,
) -> tuple[ChatAgent, ScriptedEngine]:
    engine = ScriptedEngine([ids_of(text, name) for text in script], max_context=max_context)
    return ChatAgent(engine, TemplateBridge(zoo_tokenizer(name)), sampling, name="test", **options), engine


def act(player: ChatPlayer, *messages: Message, max_tokens: int | None = None) -> Action:
    return asyncio.run(player.act(messages, max_tokens=max_tokens))


def test_the_parts_fit_the_protocols() -> None:
    agent, engine = agent_for("Ho<|im_end|>")
    parts: tuple[Agent, Player, Engine, Renderer] = (
        agent,
        agent.start(episode_start()),
        engine,
        agent.renderer,
    )
    assert parts[0].name == "test"
    assert choose_renderer(zoo_tokenizer("chatml_tools")).name == "bridge"


def test_a_second_prompt_is_the_first_with_what_was_sampled_and_what_came_since() -> None:
    agent, engine = agent_for("Ho<|im_end|>", "Hu<|im_end|>")
    player = agent.start(episode_start())
    first = act(player, system("S"), user("U"))
    second = act(player, user("V"))
    assert first.message == Message(role="assistant", content="Ho")
    assert text_of(engine.requests[1].prompt_ids) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n"
        "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n"
    )
    for action, request, generation in zip((first, second), engine.requests, engine.generations, strict=True):
        assert action.tokens is not None
        assert (action.tokens.action_ids, action.tokens.logprobs) == (generation.ids, generation.logprobs)
        assert action.tokens.context_ids == request.prompt_ids[-len(action.tokens.context_ids) :]
        assert not action.tokens.new_segment
    assert (agent.turn_count, agent.segment_breaks) == (2, 0)


def test_the_engine_is_told_whose_noise_and_which_part_of_it() -> None:
    agent, engine = agent_for("Ho<|im_end|>", "Hu<|im_end|>")
    start = episode_start(sample=3)
    player = agent.start(start)
    for text in ("U", "V"):
        act(player, user(text))
    first, second = engine.requests
    assert first.noise is second.noise is start.noise
    assert (first.noise_offset, second.noise_offset) == (0, len(ids_of("Ho<|im_end|>")))
    assert first.session == second.session
    assert first.stop_ids == agent.renderer.stop_ids
    others = {agent.start(start)._session, agent.start(episode_start(sample=4))._session, first.session}
    assert len(others) == 3


def test_the_policy_version_is_the_engines() -> None:
    agent, engine = agent_for("Ho<|im_end|>")
    asyncio.run(engine.update_weights(None, policy_version=7))
    assert act(agent.start(episode_start()), user("U")).policy_version == 7


@pytest.mark.parametrize(
    ("max_tokens", "room", "expected"),
    [(None, 100, 64), (9, 100, 9), (99, 100, 64), (None, 5, 5), (3, 5, 3), (6, 5, 5)],
)
def test_a_turn_may_have_as_many_tokens_as_the_smallest_limit(
    max_tokens: int | None, room: int, expected: int
) -> None:
    agent, engine = agent_for("o" * 80)
    player = agent.start(episode_start())
    engine.max_context = player.context_size([user("U")]) + room
    act(player, user("U"), max_tokens=max_tokens)
    assert engine.requests[0].sampling.max_tokens == expected
    assert engine.requests[0].sampling.temperature == SAMPLING.temperature


def test_a_turn_that_is_cut_says_so_and_is_closed_by_the_environments_tokens() -> None:
    agent, _ = agent_for("Ho ho ho ho", "Hu<|im_end|>")
    player = agent.start(episode_start())
    cut = act(player, user("U"), max_tokens=2)
    assert cut.finish_reason == "length"
    after = act(player, user("V"))
    assert after.tokens is not None
    assert text_of(after.tokens.context_ids).startswith("<|im_end|>\n<|im_start|>user\nV")
    assert after.finish_reason == "stop"


def test_a_full_context_gives_an_empty_action() -> None:
    agent, engine = agent_for("Ho<|im_end|>")
    player = agent.start(episode_start())
    engine.max_context = player.context_size([user("U")])
    action = act(player, user("U"))
    assert (action.finish_reason, action.message.content, engine.requests) == ("length", "", [])
    assert action.tokens is not None
    assert (len(action.tokens.context_ids), action.tokens.action_ids) == (engine.max_context, ())


def test_ids_of_calls_are_unique_within_a_conversation() -> None:
    agent, _ = agent_for(f"{CALL_TEXT}\n{CALL_TEXT}<|im_end|>", f"{CALL_TEXT}<|im_end|>")
    player = agent.start(episode_start((LOOKUP,)))
    shown = assistant(None, ToolCall.of("lookup", {"word": "y"}, id="call_0_1"))
    first = act(player, user("U"), shown, tool_result(shown.tool_calls[0], "R"))
    assert [call.id for call in first.message.tool_calls] == ["call_0_0", "call_0_2"]
    second = act(player, *(tool_result(call, "R") for call in first.message.tool_calls))
    assert [call.id for call in second.message.tool_calls] == ["call_1_0"]


def test_a_system_prompt_of_the_run_replaces_the_tasks_or_is_added() -> None:
    for messages in ((system("S"), user("U")), (user("U"),)):
        agent, engine = agent_for("Ho<|im_end|>", "Hu<|im_end|>", system_prompt="Mine.")
        player = agent.start(episode_start())
        act(player, *messages)
        act(player, user("V"))
        text = text_of(engine.requests[1].prompt_ids)
        assert text.startswith("<|im_start|>system\nMine.<|im_end|>\n<|im_start|>user\nU<|im_end|>")
        assert "S<|im_end|>" not in text


def test_a_system_prompt_is_kept_when_a_segment_starts() -> None:
    agent, engine = agent_for("Ho<|im_end|>", "Hu<|im_end|>", name="rewrites", system_prompt="Mine.")
    player = agent.start(episode_start())
    act(player, system("S"), user("U"))
    act(player, user("V"))
    assert text_of(engine.requests[1].prompt_ids, "rewrites") == (
        "<|im_start|>system 1/4\nMine.<|im_end|>\n<|im_start|>user 2/4\nU<|im_end|>\n"
        "<|im_start|>assistant 3/4\nHo<|im_end|>\n<|im_start|>user 4/4\nV<|im_end|>\n<|im_start|>assistant\n"
    )


def test_thinking_that_the_template_drops_starts_a_segment_which_is_counted() -> None:
    agent, engine = agent_for(
        f"<think>\nHm.\n</think>\n\n{CALL_TEXT}<|im_end|>",
        "Ho<|im_end|>",
        "Hu<|im_end|>",
        name="drops_thinking",
    )
    player = agent.start(episode_start((LOOKUP,)))
    first = act(player, user("U"))
    assert first.message.reasoning_content == "Hm."
    second = act(player, tool_result(first.message.tool_calls[0], "R"))
    third = act(player, user("V"))
    breaks = [action.tokens.new_segment for action in (first, second, third) if action.tokens is not None]
    assert breaks == [False, False, True]
    assert (player.segment_breaks, agent.segment_breaks, agent.turn_count) == (1, 1, 3)
    assert "Hm." in text_of(engine.requests[1].prompt_ids, "drops_thinking")
    assert "Hm." not in text_of(engine.requests[2].prompt_ids, "drops_thinking")


def test_the_size_of_the_next_context_and_the_final_context_change_nothing() -> None:
    agent, engine = agent_for("Ho<|im_end|>", "Hu<|im_end|>")
    player = agent.start(episode_start())
    act(player, user("U"))
    seen = engine.requests[0].prompt_ids + engine.generations[0].ids
    ids, new_segment = player.final_context([user("W")])
    assert not new_segment
    assert text_of(ids) == "\n<|im_start|>user\nW<|im_end|>\n<|im_start|>assistant\n"
    assert player.context_size([user("W")]) == len(seen) + len(ids)
    act(player, user("V"))
    assert text_of(engine.requests[1].prompt_ids[len(seen) :]).startswith("\n<|im_start|>user\nV<|im_end|>")


def test_a_final_context_may_be_a_new_segment_or_nothing() -> None:
    agent, _ = agent_for("Ho<|im_end|>", name="rewrites")
    player = agent.start(episode_start())
    act(player, user("U"))
    assert player.final_context([]) == ((), False)
    ids, new_segment = player.final_context([user("V")])
    assert new_segment
    assert text_of(ids, "rewrites").startswith("<|im_start|>user 1/3\nU")


def test_a_turn_that_failed_can_be_tried_again() -> None:
    agent, engine = agent_for("Ho<|im_end|>")
    answer, broken = engine._answer, True

    def sometimes(request: Any) -> Iterable[int]:
        if broken:
            raise EngineError("gone")
        return answer(request)

    engine._answer = sometimes
    player = agent.start(episode_start())
    with pytest.raises(EngineError):
        act(player, user("U"))
    broken = False
    assert act(player, user("U")).message.content == "Ho"
    assert engine.requests[0].noise_offset == 0
    assert text_of(engine.requests[0].prompt_ids) == "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n"


def test_a_conversation_that_cannot_be_rendered_is_the_templates_error() -> None:
    agent, _ = agent_for("Ho<|im_end|>", name="no_system")
    with pytest.raises(TemplateError, match="roles must alternate"):
        act(agent.start(episode_start()), assistant("me first"), user("U"))


@pytest.mark.parametrize("where", ["act", "context_size", "final_context"])
def test_text_that_cannot_be_encoded_is_the_templates_error(where: str) -> None:
    agent, _ = agent_for("Ho<|im_end|>", "Hu<|im_end|>")
    player = agent.start(episode_start())
    act(player, user("U"))
    broken = user("half of \ud83d\ude00 is \ud83d")
    with pytest.raises(TemplateError, match=r"a lone surrogate, '.ud83d'\): messages must be valid Unicode"):
        act(player, broken) if where == "act" else getattr(player, where)([broken])
    with pytest.raises(TemplateError, match="a lone surrogate"):
        agent.start(episode_start()).context_size([broken])
    assert act(player, user("V")).message.content == "Hu", "the player is as before"


@pytest.mark.parametrize(
    "error", [TypeError("expected str"), UnicodeEncodeError("utf-8", "x", 0, 1, "no"), OverflowError()]
)
def test_whatever_a_renderer_raises_is_no_failure_of_the_agents(error: Exception) -> None:
    agent, _ = agent_for("Ho<|im_end|>")

    def raises(*_: Any) -> Any:
        raise error

    agent.renderer.render = raises  # type: ignore[method-assign]
    with pytest.raises(TemplateError, match=rf"the renderer bridge cannot encode .*{type(error).__name__}"):
        act(agent.start(episode_start()), user("U"))


def test_a_tokenizer_that_refuses_is_the_templates_error() -> None:
    class Refuses:
        def __init__(self) -> None:
            self.inner = zoo_tokenizer("chatml_tools")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def encode(self, text: str, **options: Any) -> Any:
            if "refuse me" in text:
                raise TypeError("TextEncodeInput must be a string")
            return self.inner.encode(text, **options)

        def decode(self, ids: Any, **options: Any) -> Any:
            if 10**6 in ids:
                raise OverflowError("out of range")
            return self.inner.decode(ids, **options)

    renderer = TemplateBridge(Refuses())
    with pytest.raises(TemplateError, match=r"cannot encode this text .TypeError: TextEncodeInput"):
        renderer.render([user("refuse me")], ())
    with pytest.raises(TemplateError, match=r"cannot decode 1 ids .OverflowError: out of range"):
        renderer.parse([10**6], ())


def test_it_says_all_that_decides_how_it_plays() -> None:
    agent, _ = agent_for("Ho<|im_end|>")
    told = description(agent)
    assert json.loads(json.dumps(told)) == told
    assert told == description(agent_for("Hu<|im_end|>")[0]), "an engine that says nothing of itself"
    others = [
        agent_for(system_prompt="Be brief."),
        agent_for(sampling=Sampling(max_tokens=65)),
        agent_for(sampling=Sampling(max_tokens=64, temperature=0.5)),
        agent_for(name="drops_thinking"),
    ]
    assert all(description(other) != told for other, _ in others)
    assert description(ScriptedAgent(["a"])) == {}


def test_closing_lets_go_once() -> None:
    agent, engine = agent_for("Ho<|im_end|>")
    player = agent.start(episode_start())
    act(player, user("U"))

    async def close() -> None:
        await player.close()
        await player.close()
        await agent.close()

    asyncio.run(close())
    assert engine.released == [engine.requests[0].session]
    assert engine.closed == 1
