"""A trajectory as bytes and back, exactly: compact JSON for what is text, packed arrays for what is tokens.

    length of the JSON (4 bytes, little-endian) · JSON in UTF-8 · token arrays, in the order of the turns

A turn's arrays are its context ids and action ids (unsigned, 4 bytes each) and its logprobs: 4 bytes each
where that loses nothing (an engine computes them in float32), else 8. Messages are in OpenAI's wire format.
Text may hold lone surrogates (a tokenizer can produce them), which the encoding passes through. The tools
are kept apart, because thousands of episodes share them.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any

import pydantic_core

from turngym.agents.types import Action, Outcome, Tokens, Trajectory, Turn
from turngym.envs.messages import Message, ToolSpec

_LENGTH = struct.Struct("<I")


def encode(trajectory: Trajectory) -> bytes:
    """Everything but the tools, as one blob."""
    arrays: list[bytes] = []
    header: dict[str, Any] = {
        "env_id": trajectory.env_id,
        "task_id": trajectory.task_id,
        "task_hash": trajectory.task_hash,
        "seed": trajectory.seed,
        "sample": trajectory.sample,
        "prompt": [_message(message) for message in trajectory.prompt],
        "turns": [_turn(turn, arrays) for turn in trajectory.turns],
        "outcome": [trajectory.outcome.kind, trajectory.outcome.cause, trajectory.outcome.error],
        "attempts": trajectory.attempts,
        "metrics": dict(trajectory.metrics),
        "wall_s": trajectory.wall_s,
    }
    if trajectory.final_context_ids or trajectory.final_new_segment:
        header["final"] = [len(trajectory.final_context_ids), trajectory.final_new_segment]
        arrays.append(_pack("I", trajectory.final_context_ids))
    text = _write(header)
    return b"".join((_LENGTH.pack(len(text)), text, *arrays))


def decode(blob: bytes, tools: tuple[ToolSpec, ...]) -> Trajectory:
    """The trajectory that `encode` was given.

    Raises:
        ValueError: the blob is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(blob)
        start = _LENGTH.size + length
        header = _read(blob[_LENGTH.size : start])
        arrays = _Arrays(blob, start)
        turns = tuple(_read_turn(turn, arrays) for turn in header["turns"])
        count, new_segment = header.get("final", (0, False))
        final_context_ids = arrays.take("I", count)
        arrays.finish()
        return Trajectory(
            env_id=header["env_id"],
            task_id=header["task_id"],
            task_hash=header["task_hash"],
            seed=header["seed"],
            sample=header["sample"],
            prompt=tuple(Message.from_wire(message) for message in header["prompt"]),
            tools=tools,
            turns=turns,
            outcome=Outcome(*header["outcome"]),
            final_context_ids=final_context_ids,
            final_new_segment=new_segment,
            attempts=header["attempts"],
            metrics=header["metrics"],
            wall_s=header["wall_s"],
        )
    except (struct.error, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"this is not a whole trajectory: {error}") from error


def decode_error(blob: bytes) -> str | None:
    """The error of the trajectory that `encode` was given, without the rest of it.

    Raises:
        ValueError: the blob is damaged.
    """
    try:
        (length,) = _LENGTH.unpack_from(blob)
        _, _, error = _read(blob[_LENGTH.size : _LENGTH.size + length])["outcome"]
    except (struct.error, KeyError, TypeError, IndexError) as problem:
        raise ValueError(f"this is not a whole trajectory: {problem}") from problem
    return None if error is None else str(error)


def encode_tools(tools: Sequence[ToolSpec]) -> bytes:
    """Tool descriptions as JSON."""
    return _write([tool.wire() for tool in tools])


def decode_tools(blob: bytes) -> tuple[ToolSpec, ...]:
    """The tools that `encode_tools` was given."""
    return tuple(ToolSpec.model_validate(tool) for tool in _read(blob))


def _write(data: Any) -> bytes:
    """JSON, five times as fast as `json` writes it; but lone surrogates are something only `json` writes."""
    try:
        return pydantic_core.to_json(data, inf_nan_mode="constants")
    except ValueError:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _read(text: bytes) -> Any:
    try:
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text.decode("utf-8", "surrogatepass"))


def _message(message: Message) -> dict[str, Any]:
    data = message.wire()
    if message.tool_calls:
        for call, wired in zip(message.tool_calls, data["tool_calls"], strict=True):
            if call.parse_error is not None:  # ours, not OpenAI's
                wired["parse_error"] = call.parse_error
    return data


def _turn(turn: Turn, arrays: list[bytes]) -> dict[str, Any]:
    """The turn without what has its default value; its token arrays go to the end of `arrays`."""
    action = turn.action
    data: dict[str, Any] = {
        "message": _message(action.message),
        "observation": [_message(message) for message in turn.observation],
        "seconds": [turn.agent_s, turn.env_s],
    }
    if turn.reward:
        data["reward"] = turn.reward
    if turn.reward_components:
        data["components"] = dict(turn.reward_components)
    if turn.anchor is not None:
        data["anchor"] = turn.anchor
    if action.finish_reason != "stop":
        data["finish"] = action.finish_reason
    if action.policy_version:
        data["version"] = action.policy_version
    if action.tokens is not None:
        tokens = action.tokens
        kind = "f" if tuple(array("f", tokens.logprobs)) == tokens.logprobs else "d"
        data["tokens"] = [len(tokens.context_ids), len(tokens.action_ids), kind, tokens.new_segment]
        arrays += (
            _pack("I", tokens.context_ids),
            _pack("I", tokens.action_ids),
            _pack(kind, tokens.logprobs),
        )
    return data


def _read_turn(data: dict[str, Any], arrays: _Arrays) -> Turn:
    tokens = None
    if "tokens" in data:
        contexts, actions, kind, new_segment = data["tokens"]
        tokens = Tokens(
            context_ids=arrays.take("I", contexts),
            action_ids=arrays.take("I", actions),
            logprobs=arrays.take(kind, actions),
            new_segment=new_segment,
        )
    agent_s, env_s = data["seconds"]
    return Turn(
        action=Action(
            Message.from_wire(data["message"]), tokens, data.get("finish", "stop"), data.get("version", 0)
        ),
        observation=tuple(Message.from_wire(message) for message in data["observation"]),
        reward=data.get("reward", 0.0),
        reward_components=data.get("components", {}),
        anchor=data.get("anchor"),
        agent_s=agent_s,
        env_s=env_s,
    )


def _pack(kind: str, values: Sequence[float]) -> bytes:
    packed: array[Any] = array(kind, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


class _Arrays:
    """Reads the packed arrays one after the other."""

    def __init__(self, blob: bytes, start: int) -> None:
        self._blob = blob
        self._at = start

    def take(self, kind: str, count: int) -> tuple[Any, ...]:
        values: array[Any] = array(kind)
        end = self._at + count * values.itemsize
        if end > len(self._blob):
            raise IndexError("it ends in the middle of its tokens")
        values.frombytes(self._blob[self._at : end])
        if sys.byteorder == "big":
            values.byteswap()
        self._at = end
        return tuple(values)

    def finish(self) -> None:
        if self._at != len(self._blob):
            raise IndexError("there is something after its tokens")
