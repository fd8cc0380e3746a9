"""Random trajectories for the properties of the codec and the store."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from turngym.agents.types import Action, Outcome, Tokens, Trajectory, Turn
from turngym.envs.messages import FunctionCall, FunctionSpec, Message, ToolCall, ToolSpec

# Everything that str can hold: U+2028, NUL, astral planes, and lone surrogates.
texts = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["", "\u2028\n\r", "\ud800x", "\ud83d\ude00"]
)
floats = st.floats(allow_nan=False)
counts = st.integers(0, 2**31 - 1)
figures = st.dictionaries(texts, floats, max_size=3)
optional_texts = st.none() | texts
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
tool_calls = st.builds(
    ToolCall,
    id=texts,
    function=st.builds(FunctionCall, name=texts, arguments=texts),
    parse_error=optional_texts,
)
messages = st.builds(
    Message,
    role=st.sampled_from(["system", "user", "assistant", "tool"]),
    content=optional_texts,
    reasoning_content=optional_texts,
    tool_calls=st.lists(tool_calls, max_size=2).map(tuple),
    tool_call_id=optional_texts,
    name=optional_texts,
)
conversations = st.lists(messages, max_size=2).map(tuple)
tools = st.builds(
    ToolSpec,
    function=st.builds(
        FunctionSpec,
        name=texts,
        description=texts,
        parameters=st.dictionaries(texts, json_values, max_size=2),
    ),
)
token_ids = st.lists(st.integers(0, 2**32 - 1), max_size=5).map(tuple)
logprobs = st.floats(max_value=0, allow_nan=False) | st.floats(max_value=0, allow_nan=False, width=32)


@st.composite
def tokens(draw: Any) -> Tokens:
    action_ids = draw(token_ids)
    probabilities = draw(st.lists(logprobs, min_size=len(action_ids), max_size=len(action_ids)))
    return Tokens(draw(token_ids), action_ids, tuple(probabilities), draw(st.booleans()))


actions = st.builds(
    Action,
    message=messages,
    tokens=st.none() | tokens(),
    finish_reason=st.sampled_from(["stop", "length"]),
    policy_version=counts,
)
turns = st.builds(
    Turn,
    action=actions,
    observation=conversations,
    reward=st.floats(-10, 10),
    reward_components=figures,
    anchor=optional_texts,
    agent_s=floats,
    env_s=floats,
)
outcomes = st.sampled_from(
    [
        Outcome("completed", "terminated"),
        Outcome("truncated", "tokens"),
        Outcome("failed", "agent", "InvalidAction: \ud800"),
        Outcome("failed", "infrastructure", "gone"),
    ]
)
trajectories = st.builds(
    Trajectory,
    env_id=texts,
    task_id=st.text(max_size=5),
    task_hash=texts,
    seed=counts,
    sample=st.integers(0, 3),
    prompt=conversations,
    tools=st.lists(tools, max_size=2).map(tuple),
    turns=st.lists(turns, max_size=3).map(tuple),
    outcome=outcomes,
    final_context_ids=token_ids,
    final_new_segment=st.booleans(),
    attempts=st.integers(1, 3),
    metrics=st.dictionaries(texts | st.just("success"), st.floats(0, 1), max_size=2),
    wall_s=st.floats(0, 1e6).filter(math.isfinite),
)
