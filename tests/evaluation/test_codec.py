"""What is stored is what was recorded, bit for bit."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from hypothesis import given, settings

from turngym.agents.types import Action, Outcome, Tokens, Trajectory, Turn
from turngym.envs.messages import ToolCall, assistant, tool_result, user
from turngym.evaluation.codec import decode, decode_tools, encode, encode_tools

from .conftest import trajectories

CALL = ToolCall.of("calculate", {"a": 1, "op": "−"})
SMALL = Trajectory(
    env_id="turngym/Calculator-v0",
    task_id="test-0",
    task_hash="00ff",
    seed=1,
    sample=0,
    prompt=(user("1 − 1?"),),
    tools=(),
    turns=(
        Turn(Action(assistant(None, CALL), Tokens((1, 2), (3,), (-0.5,))), (tool_result(CALL, "0"),)),
        Turn(
            Action(assistant("0"), Tokens((4,), (5, 6), (-0.1, -2.0))),
            reward=1.0,
            reward_components={"correct": 1.0},
        ),
    ),
    outcome=Outcome("completed", "terminated"),
    metrics={"success": 1.0},
)


@settings(max_examples=100, deadline=None)
@given(trajectories)
def test_decoding_gives_back_what_was_encoded(trajectory: Trajectory) -> None:
    tools = decode_tools(encode_tools(trajectory.tools))
    again = decode(encode(trajectory), tools)
    assert again == trajectory
    # Equality calls 0.0 and -0.0 the same; the bytes do not.
    assert encode(again) == encode(trajectory)


def test_tokens_cost_four_bytes_each_and_float32_logprobs_four() -> None:
    def size(logprob: float) -> int:
        tokens = Tokens(tuple(range(500)), tuple(range(500)), (logprob,) * 500)
        return len(encode(dataclasses.replace(SMALL, turns=(Turn(Action(assistant("x"), tokens)),))))

    (single,) = struct.unpack("<f", struct.pack("<f", -0.1))
    assert size(-0.1) - size(single) == 500 * 4
    assert size(single) < 1500 * 4 + 600
    assert size(-1e300) == size(-0.1)  # beyond float32, kept in full


@pytest.mark.parametrize("cut", [0, 3, 10, -1])
def test_a_damaged_blob_is_an_error(cut: int) -> None:
    blob = encode(SMALL)
    assert decode(blob, ()) == SMALL
    with pytest.raises(ValueError):
        decode(blob[:cut], ())
    with pytest.raises(ValueError, match="after its tokens"):
        decode(blob + b"\0", ())
