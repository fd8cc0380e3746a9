"""Whole episodes or nothing, whoever is killed, and any text comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from turngym.envs import Message, ToolCall
from turngym.envs.messages import FunctionCall
from turngym.envs.wrappers import Recording, TurnLimit, read_recording, recording

from .small import Async, Sync

ROOT = Path(__file__).parents[3]


def play(env, *actions, seed=None):
    env.reset(seed=seed, options={"task": "train-0"})
    for action in actions:
        env.step(action)


def test_an_episode_is_a_line(tmp_path):
    path = tmp_path / "folder" / "e.jsonl"
    env = Recording(TurnLimit(Sync(), 2), path)
    play(env, "x", "red", seed=7)
    play(env, "x", "y")
    first, second = read_recording(path)
    assert (first["env_id"], first["task_id"], first["seed"]) == ("Sync", "train-0", 7)
    assert first["opening"] == [{"role": "user", "content": "Say red"}]
    assert [turn["action"]["content"] for turn in first["turns"]] == ["x", "red"]
    assert [turn["reward"] for turn in first["turns"]] == [0.0, 1.0]
    assert first["turns"][1]["reward_components"] == {"right": 1.0}
    assert (first["reward"], first["metrics"], first["terminated"]) == (1.0, {"success": 1.0}, True)
    assert (second["seed"], second["truncated"], second["reward"]) == (None, True, 0.0)
    assert "target" not in path.read_text()


def test_what_is_given_up_leaves_nothing(tmp_path):
    env = Recording(Sync(), tmp_path / "e.jsonl")
    play(env, "x")
    play(env, "x")
    env.close()
    assert not (tmp_path / "e.jsonl").exists()


def test_any_text_comes_back(tmp_path):
    odd = "line\u2028line\u2029\x85\n\r\ud800\x00 \U0001f600"
    call = ToolCall(id="c", function=FunctionCall(name="", arguments=odd), parse_error="bad")
    env = Recording(TurnLimit(Sync(), 1), tmp_path / "e.jsonl")
    play(env, Message(role="assistant", content=odd, tool_calls=(call,)))
    assert (tmp_path / "e.jsonl").read_bytes().count(b"\n") == 1
    (episode,) = read_recording(tmp_path / "e.jsonl")
    action = episode["turns"][0]["action"]
    assert action["content"] == odd
    assert action["tool_calls"][0]["function"]["arguments"] == odd
    assert action["tool_calls"][0]["parse_error"] == "bad"


@pytest.mark.parametrize("cut", [1, 10, -1, -2])
def test_half_a_line_is_not_counted_and_spoils_no_other(tmp_path, cut):
    path = tmp_path / "e.jsonl"
    env = Recording(Sync(), path)
    play(env, "red", seed=1)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:cut])
    assert [episode["seed"] for episode in read_recording(path)] == ([1, 1] if cut == -1 else [1])
    play(env, "red", seed=2)
    seeds = [episode["seed"] for episode in read_recording(path)]
    assert seeds == ([1, 1, 2] if cut == -1 else [1, 2])


def test_a_full_disk_is_an_error_not_half_an_episode(tmp_path, monkeypatch):
    path = tmp_path / "e.jsonl"
    env = Recording(Sync(), path)

    def full(file, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording.os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        play(env, "red")
    monkeypatch.undo()
    play(env, "red", seed=2)
    assert [episode["seed"] for episode in read_recording(path)] == [2]


def test_short_writes_are_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(recording.os, "write", lambda file, data: write(file, data[:7]))
    play(Recording(Sync(), tmp_path / "e.jsonl"), "red", seed=1)
    assert [episode["seed"] for episode in read_recording(tmp_path / "e.jsonl")] == [1]


def test_both_faces_and_forks(tmp_path):
    import asyncio

    async def awaited(env):
        await env.areset(seed=5, options={"task": "train-0"})
        await env.astep("red")

    asyncio.run(awaited(Recording(Async(), tmp_path / "e.jsonl")))
    (episode,) = read_recording(tmp_path / "e.jsonl")
    assert (episode["seed"], episode["reward"]) == (5, 1.0)
    env = Recording(Sync(), tmp_path / "f.jsonl")
    env.reset(seed=0, options={"task": "train-0"})
    env.step("x")
    env.fork().step("red")
    env.step("y")
    env.step("red")
    said = [
        [turn["action"]["content"] for turn in one["turns"]] for one in read_recording(tmp_path / "f.jsonl")
    ]
    assert said == [["x", "red"], ["x", "y", "red"]]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_processes_share_a_file(tmp_path):
    path = tmp_path / "e.jsonl"
    vector = AsyncVectorEnv(
        [lambda: Recording(TurnLimit(Sync(), 1), path)] * 3,
        shared_memory=False,
        autoreset_mode=AutoresetMode.SAME_STEP,
    )
    for seed in range(5):
        vector.reset(seed=seed, options={"task": "train-0"})
        vector.step(("x" * 20_000, "y", "red"))
    vector.close()
    episodes = list(read_recording(path))
    assert len(episodes) == 15
    assert path.read_bytes().count(b"\n") == 15


SCRIPT = """
import sys
from tests.envs.wrappers.small import Sync
from turngym.envs.wrappers import Recording
env = Recording(Sync(), sys.argv[1])
print("started", flush=True)
for seed in range(10**9):
    env.reset(seed=seed, options={"task": "train-0"})
    env.step("x" * 200_000)
    env.step("red")
"""


def test_law_13_a_killed_process_leaves_whole_episodes(tmp_path):
    path = tmp_path / "e.jsonl"
    for _ in range(3):
        command = [sys.executable, "-c", SCRIPT, str(path)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"started\n"
            time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
    episodes = list(read_recording(path))
    lines = [line for line in path.read_bytes().split(b"\n") if line]
    assert len(lines) - 3 <= len(episodes) <= len(lines)
    assert all(episode["reward"] == 1.0 and len(episode["turns"]) == 2 for episode in episodes)
    json.dumps(episodes[0])
