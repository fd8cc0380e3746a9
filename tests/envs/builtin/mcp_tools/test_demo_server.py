import io
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.builtin.mcp_tools import demo_server
from turngym.envs.builtin.mcp_tools.demo import COMMAND
from turngym.envs.builtin.mcp_tools.demo_server import MOST, PROTOCOLS, Storeroom, answer, read_message

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def ask(room, method, params=None, number=1):
    return answer({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, room)


def call(room, name, **arguments):
    result = ask(room, "tools/call", {"name": name, "arguments": arguments})["result"]
    return result["content"][0]["text"], result.get("isError", False)


@pytest.fixture
def room():
    room = Storeroom()
    room.fill({"A": {"lamp": 3, "bell": 1}, "B": {"lamp": 19}})
    return room


def test_greeting():
    greeting = ask(Storeroom(), "initialize", {"protocolVersion": "2025-03-26"}, number="x")
    assert (greeting["id"], greeting["result"]["protocolVersion"]) == ("x", "2025-03-26")
    assert ask(Storeroom(), "initialize", {})["result"]["protocolVersion"] == PROTOCOLS[-1]
    assert answer({"jsonrpc": "2.0", "method": "notifications/initialized"}, Storeroom()) is None
    assert ask(Storeroom(), "ping")["result"] == {}
    assert ask(Storeroom(), "resources/list")["error"]["code"] == -32601


def test_tools_are_described_as_they_are_called():
    tools = {tool["name"]: tool for tool in ask(Storeroom(), "tools/list")["result"]["tools"]}
    assert list(tools) == ["look", "find", "move", "fill", "stock"]
    schema = tools["move"]["inputSchema"]
    assert schema["required"] == list(schema["properties"]) == ["item", "count", "source", "target"]
    assert all(tool["description"] for tool in tools.values())


def test_things_are_found_and_moved(room):
    assert call(room, "look", shelf="A") == ("bell: 1\nlamp: 3", False)
    assert call(room, "look", shelf="D") == ("nothing", False)
    assert call(room, "find", item="lamp") == ("A: 3\nB: 19", False)
    assert call(room, "find", item="saw") == ("nowhere", False)
    assert call(room, "move", item="lamp", count=1, source="A", target="B") == (
        "moved 1 × lamp from A to B",
        False,
    )
    assert call(room, "move", item="bell", count=1, source="A", target="C")[1] is False
    result = ask(room, "tools/call", {"name": "stock"})["result"]
    assert result["structuredContent"] == {"A": {"lamp": 2}, "B": {"lamp": 20}, "C": {"bell": 1}, "D": {}}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def test_mistakes_are_told_and_change_nothing(room):
    before = room.stock()
    wrong = (
        ("look", {"shelf": "E"}, "there is no 'E'; there are A, B, C, D"),
        ("look", {}, "look takes shelf; it got nothing"),
        ("look", {"shelf": "A", "deep": 1}, "look takes shelf; it got shelf, deep"),
        ("find", {"item": ["lamp"]}, "there is no \"['lamp']\""),
        ("move", {"item": "lamp", "count": 4, "source": "A", "target": "C"}, "shelf A holds 3 × lamp"),
        ("move", {"item": "lamp", "count": 2, "source": "A", "target": "B"}, "shelf B has no room for 2 × lamp"),
        ("move", {"item": "lamp", "count": 0, "source": "A", "target": "C"}, "count must be a whole number"),
        ("move", {"item": "lamp", "count": True, "source": "A", "target": "C"}, "count must be a whole number"),
        ("move", {"item": "lamp", "count": 1, "source": "A", "target": "A"}, "the same shelf"),
        ("fill", {"stock": {"A": {"lamp": MOST + 1}}}, "a shelf holds 1 to 20"),
        ("fill", {"stock": [1]}, "stock looks like"),
        ("fill", {"stock": {"A": {"lamp": 1}, "Z": {"lamp": 1}}}, "there is no 'Z'"),
    )  # fmt: skip
    for name, arguments, complaint in wrong:
        text, is_error = call(room, name, **arguments)
        assert (is_error, complaint in text) == (True, True), (name, arguments, text)
    assert room.stock() == before
    assert ask(room, "tools/call", {"name": "burn"})["error"]["code"] == -32602


@settings(max_examples=200, deadline=None)
@given(JSON, JSON)
def test_no_message_is_too_odd(message, params):
    answer(message, Storeroom())
    for method in ("initialize", "tools/list", "tools/call"):
        assert ask(Storeroom(), method, params)["id"] == 1
    for name in ("look", "move", "fill"):
        assert "id" in ask(Storeroom(), "tools/call", {"name": name, "arguments": params})


def test_lines_in_lines_out(monkeypatch):
    lines = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n\xff\n{"jsonrpc":"2.0","method":"hush"}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out))
    demo_server.main([])
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32600, "message": "this is no JSON-RPC 2.0 message"},
        },
    ]
    assert read_message("[" * 100_000) is None


def test_it_runs_with_nothing_but_python_and_as_a_module():
    ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    module = [sys.executable, "-m", "turngym.envs.builtin.mcp_tools.demo_server"]
    for command in (list(COMMAND), module):
        done = subprocess.run(command, input=ping, capture_output=True, text=True, timeout=60, check=True)
        assert json.loads(done.stdout)["result"] == {}
    wrong = subprocess.run([*module, "--htpp"], capture_output=True, text=True, timeout=60)
    assert (wrong.returncode, "--http 8000" in wrong.stderr) == (1, True)
