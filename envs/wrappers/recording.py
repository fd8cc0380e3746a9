"""Episodes as lines of a file: one JSON object for each that has ended, written when it ends.

env = Recording(make("turngym/Calculator-v0"), "episodes.jsonl")
…
for episode in read_recording("episodes.jsonl"): print(episode["task_id"], episode["reward"])
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium

from turngym.envs.env import Observation, ResetResult, StepResult
from turngym.envs.messages import Message
from turngym.envs.spaces import as_action
from turngym.envs.wrappers.base import Wrapper


class Recording(Wrapper):
    """Adds each finished episode to a JSONL file, as it was seen through this wrapper: put it outermost.

    An episode that is given up (reset in its middle, an error, a killed process) leaves nothing. Several
    environments and processes may share a file. Hidden targets are not recorded.

    A line has env_id, task_id, task_hash, seed (None if there was none), opening (messages), turns (action,
    observation, reward, reward_components), terminated, truncated, reward (the sum), metrics.

    Args:
        env: what is wrapped.
        path: the file. What it holds already stays.
    """

    def __init__(self, env: gymnasium.Env[Observation, Any], path: str | Path) -> None:
        super().__init__(env, path=path)
        self._path = Path(path).absolute()
        self._seed: int | None = None
        self._episode: dict[str, Any] = {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """Start an episode, and its record."""
        self._seed = seed
        return super().reset(seed=seed, options=options)

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """`reset`, awaited."""
        self._seed = seed
        return await super().areset(seed=seed, options=options)

    def on_reset(self, result: ResetResult) -> ResetResult:
        """A record begins; one that was not finished is dropped."""
        observation, info = result
        spec = self.unwrapped.spec
        self._episode = {
            "env_id": spec.id if spec is not None else type(self.unwrapped).__name__,
            "task_id": info.get("task_id"),
            "task_hash": info.get("task_hash"),
            "seed": self._seed,
            "opening": _wired(observation),
            "turns": [],
        }
        return result

    def on_step(self, action: Any, result: StepResult) -> StepResult:
        """A turn is noted, and with the last one the record is written."""
        observation, reward, terminated, was_truncated, info = result
        turns = self._episode["turns"]
        turns.append(
            {
                "action": _wired((as_action(action),))[0],
                "observation": _wired(observation),
                "reward": reward,
                "reward_components": dict(info.get("reward_components", {})),
            }
        )
        if terminated or was_truncated:
            end = {"terminated": terminated, "truncated": was_truncated}
            total = {
                "reward": sum(turn["reward"] for turn in turns),
                "metrics": dict(info.get("metrics", {})),
            }
            _append(self._path, json.dumps(self._episode | end | total, default=float))
        return result


def read_recording(path: str | Path) -> Iterator[dict[str, Any]]:
    """The episodes of a file, one after the other. What a killed process left of a line is passed over."""
    with open(path, "rb") as file:
        for line in file:
            try:
                episode = json.loads(line)
            except ValueError:
                continue
            if isinstance(episode, dict) and "metrics" in episode:
                yield episode


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed, or we are killed
        data = line.encode("ascii") + b"\n"
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # somebody was killed in the middle of a line
            data = b"\n" + data
        while data:
            data = data[os.write(file, data) :]
    finally:
        os.close(file)


def _wired(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Messages as they are sent; of a call that could not be parsed, what was wrong with it too."""
    wired = [message.wire() for message in messages]
    for message, data in zip(messages, wired, strict=True):
        for number, call in enumerate(message.tool_calls):
            if call.parse_error is not None:
                data["tool_calls"][number]["parse_error"] = call.parse_error
    return wired
