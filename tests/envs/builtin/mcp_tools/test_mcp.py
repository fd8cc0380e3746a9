"""Against real servers: the demonstration one over standard input and output and over HTTP, and some that misbehave."""

import asyncio
import json
import socket
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from turngym.envs import ToolCall, assistant, check, make
from turngym.envs.builtin.mcp_tools.demo_server import STOCK
from turngym.envs.builtin.mcp_tools.environment import DEMO, MCP, demo_tasks, expert, random_calls
from turngym.envs.errors import ContractError, InfrastructureError
from turngym.envs.tasks import iterate

ID = "turngym/MCP-v0"


def call(name, call_id="c", **arguments):
    return assistant(None, ToolCall.of(name, arguments, id=call_id))


def script(tmp_path, body):
    """A server of one tool whose body is given."""
    path = tmp_path / "server.py"
    path.write_text(
        "import os, time\nfrom mcp.server.mcpserver import MCPServer\nserver = MCPServer('odd')\n"
        f"@server.tool()\ndef act(what: str) -> str:\n    {body}\nserver.run('stdio')\n"
    )
    return [sys.executable, str(path)]


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.jsonl"
    rows = [{"prompt": f"q{n}", "target": n} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_the_expert_succeeds_and_each_episode_has_a_room_of_its_own():
    env = make(ID, command=DEMO, tasks=demo_tasks())
    for seed in range(2):
        env.reset(seed=seed)
        over = False
        while not over:
            _, reward, over, *_ = env.step(expert(env.task, tuple(env.history), None))
        assert reward == 1.0
    env.reset(seed=0)
    assert env.step(call("count", article="oars"))[0][0].text == str(STOCK["oars"])
    env.close()


def test_schemas_are_the_server_s_and_wrong_calls_are_answered():
    env = make(ID)
    assert [spec.name for spec in env.tools] == ["count", "take", "put"]
    assert env.tools[1].function.parameters["properties"]["pieces"]["type"] == "integer"
    env.reset(seed=0)
    observation, *_ = env.step(
        assistant(
            None,
            ToolCall.of("take", {"article": "oars", "pieces": 99}, id="1"),
            ToolCall.of("take", {"article": "oars", "pieces": "many"}, id="2"),
            ToolCall.of("take", "[1]", id="3"),
            ToolCall.of("nothing", {}, id="4"),
            ToolCall.of("count", {"article": "oars"}, id="5"),
        )
    )
    assert [message.tool_call_id for message in observation] == list("12345")
    assert "there are 6" in observation[0].text
    assert all("Error" in message.text for message in observation[:4])
    assert observation[4].text == "6"
    env.close()


@pytest.mark.parametrize(
    "how", [{}, {"command": DEMO, "tasks": demo_tasks()}], ids=["in this process", "a program"]
)
def test_a_fork_repeats_the_calls_to_a_server_of_its_own(how):
    env = make(ID, **how)
    env.reset(seed=0)
    env.step(call("take", article="oars", pieces=1))
    twin, snapshot = env.fork(), env.snapshot()
    assert env.step(call("take", article="oars", pieces=1))[0][0].text == "4"
    assert twin.step(call("put", article="oars", pieces=10))[0][0].text == "15"
    env.restore(snapshot)
    assert env.step(call("count", article="oars"))[0][0].text == "5"
    for one in (env, twin):
        one.close()


def test_a_server_over_http(tasks):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([*DEMO, "--port", str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        env = make(ID, url=f"http://127.0.0.1:{port}/mcp", tasks=tasks, only_tools=["count"])
        env.reset(seed=0)
        assert [spec.name for spec in env.tools] == ["count"]
        assert env.step(call("count", article="oars"))[0][0].text == "6"
        assert "no tool" in env.step(call("take", article="oars", pieces=1))[0][0].text
        assert env.step(str(env.task.target))[1] == 1.0
        env.close()
    finally:
        server.kill()
        server.wait()


def test_a_server_that_dies_or_hangs_is_a_failure_of_infrastructure(tmp_path, tasks):
    env = make(
        ID,
        command=script(tmp_path, "os._exit(3) if what == 'die' else time.sleep(60)"),
        tasks=tasks,
        timeout_s=4.0,
    )
    for what in ("die", "hang"):
        env.reset(seed=0)
        with pytest.raises(InfrastructureError, match=r"is gone|took more than"):
            env.step(call("act", what=what))
    env.close()


def test_a_server_that_cannot_be_started_is_said(tasks):
    for command in (["/no/such/program"], [sys.executable, "-c", "print('hello')"]):
        with pytest.raises(InfrastructureError, match="does not answer"):
            make(ID, command=command, tasks=tasks, timeout_s=5.0)
    with pytest.raises(ContractError, match="of your own needs tasks"):
        make(ID, url="http://127.0.0.1:9/mcp")
    with pytest.raises(ContractError, match="no tool 'fly'"):
        make(ID, only_tools=["fly"])


def test_tasks_of_a_file(tasks, tmp_path):
    env = make(ID, command=DEMO, tasks=tasks)
    prompts = {s: {t.prompt[0].text for t in iterate(env.tasks, s)} for s in env.tasks.splits}
    assert len(prompts["train"] | prompts["test"]) == 40
    assert not prompts["train"] & prompts["test"]
    named = tmp_path / "named.jsonl"
    row = {"id": "x", "prompt": [{"role": "user", "content": "hi"}], "target": "yes", "split": "test"}
    named.write_text(json.dumps(row) + "\n")
    env = make(ID, command=DEMO, tasks=str(named), split="test")
    env.reset(options={"task": "x"})
    assert env.step("yes")[1] == 1.0
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps(row | {"split": "dev"}) + "\n")
    with pytest.raises(ContractError, match="train or test"):
        make(ID, command=DEMO, tasks=str(bad))


def test_rewards_of_ones_own_stand_in_for_the_default(tasks):
    def generous(answer: str) -> float:
        return 0.5

    env = make(ID, command=DEMO, tasks=tasks, rewards=[generous])
    env.reset(seed=0)
    assert env.step(str(env.task.target))[1] == 0.5


def test_demo_tasks_can_be_done_from_the_start():
    for split in ("train", "test"):
        for task in iterate(demo_tasks(), split, 500):
            assert 0 < task.target < 10_000
            assert 2 <= len(task.metadata["calls"]) <= 4
    assert len({task.prompt for task in iterate(demo_tasks(), "train", 3000)}) > 2900


def test_random_play_raises_nothing_and_leaves_no_process():
    before = {child.pid for child in psutil.Process().children(recursive=True)}

    async def play(first):
        env = MCP(split="test", command=DEMO, tasks=demo_tasks()) if first == 0 else MCP(split="test")
        for number in range(first, first + (5 if first == 0 else 100)):
            task = env.tasks.at("test", number)
            await env.areset(seed=number, options={"task": task})
            rng, over = np.random.default_rng(number), False
            while not over:
                _, reward, over, *_ = await env.astep(random_calls(task, tuple(env.history), rng))
                assert reward in (0.0, 1.0)

    async def all_of_them():
        await asyncio.gather(*(play(100 * n) for n in range(4)))

    asyncio.run(all_of_them())
    for _ in range(100):
        left = {child.pid for child in psutil.Process().children(recursive=True)} - before
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(left)


def test_it_keeps_the_laws():
    assert [result for result in check(ID) if not result.ok] == []
