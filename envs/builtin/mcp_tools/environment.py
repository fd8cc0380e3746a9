"""MCP: answer questions with the tools of a server of the Model Context Protocol."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from turngym.envs.builtin.mcp_tools.connection import Answer, Connection, ServerAddress
from turngym.envs.builtin.mcp_tools.demo_server import STOCK, Shelf, make_server
from turngym.envs.env import ResetResult, StepResult
from turngym.envs.errors import ContractError
from turngym.envs.messages import Message, ToolCall, ToolSpec, assistant, user
from turngym.envs.replay import Replay
from turngym.envs.rewards import Reward, Rewards, reward
from turngym.envs.rows import Row, RowTasks, partition, read_rows
from turngym.envs.spaces import ActionSpace
from turngym.envs.tasks import GeneratedTasks, Task, TaskSet
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import Tool, Toolbox
from turngym.sandboxes import async_bridge

DEMO: Final = (sys.executable, str(Path(__file__).parent / "demo_server.py"))
"""The server that comes along, a store room, as a program."""


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Make the task's calls one after the other, and say what the last one returned."""
    calls = task.metadata["calls"]
    done = sum(message.role == "tool" for message in history)
    if done < len(calls):
        name, arguments = calls[done]
        return assistant(None, ToolCall.of(name, arguments, id=f"call_{done}"))
    return assistant(history[-1].text)


def random_calls(_task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """The room's tools with articles and numbers that exist or do not, now and then an answer."""
    if rng.random() < 0.25:
        return assistant(str(int(rng.integers(1000))))
    name = str(rng.choice(["count", "take", "put", "steal"]))
    arguments: dict[str, Any] = {"article": str(rng.choice([*STOCK, "dragons", ""]))}
    if name != "count" or rng.random() < 0.1:
        arguments["pieces"] = [3, 0, -1, 10**9, "many", None][int(rng.integers(6))]
    return assistant(None, ToolCall.of(name, arguments, id=f"call_{len(history)}"))


class MCP(ToolEnv):
    """Answer questions with the tools of an MCP server.

    Each episode has a server of its own: a process, or an object of the SDK's; over HTTP it is a connection of its own,
    and what the server keeps from one to the next is the server's affair. A fork
    repeats the calls to a new one, and answers that differ then are an infrastructure failure. A server that dies,
    hangs or breaks the protocol is one too; a tool that fails is answered with its own words.

    Args:
        command: program and arguments of a server over standard input and output.
        url: of a server over HTTP, instead.
        server: a function that makes a server of the SDK's, instead; it runs in this process, so its code is trusted
            and must not wait. Default: turngym's store room.
        env: variables for the program.
        tasks: a task set, or a JSONL file of rows `{"prompt": …, "target": …, "id"?: …, "split"?: "train" | "test"}`.
            Default: questions about the store room.
        rewards: functions, instead of the default one: 1 if the final message is the target's text.
        only_tools: names of the tools to offer; default: all.
        max_turns: a rule: the episode ends after so many messages.
        timeout_s: of the server's start, and of each call.
        split: "train" or "test".

    Raises:
        InfrastructureError: the server cannot be started or reached.
        MissingExtra: the SDK is not installed.
        ContractError: a tool of `only_tools` is not among the server's; a server of one's own without tasks.
    """

    policies: ClassVar = {"expert": expert, "random": random_calls}

    def __init__(
        self,
        *,
        command: Sequence[str] = (),
        url: str | None = None,
        server: Callable[[], Any] | None = None,
        env: Mapping[str, str] | None = None,
        tasks: TaskSet | str | Path | None = None,
        rewards: Iterable[Callable[..., Any]] = (),
        only_tools: Iterable[str] | None = None,
        max_turns: int = 16,
        timeout_s: float = 30.0,
        split: str | None = None,
    ) -> None:
        if tasks is None:
            if command or url or server:
                raise ContractError("a server of your own needs tasks=… of your own")
            tasks = demo_tasks()
        elif isinstance(tasks, (str, Path)):
            tasks = file_tasks(str(tasks))
        super().__init__(tasks=tasks, split=split, max_turns=max_turns)
        if given := [Reward.of(function) for function in rewards]:
            self.rewards = Rewards(given)
            self.reward_range = self.rewards.total_range(max_turns)
        make = server or (None if command or url else make_server)
        self._address = ServerAddress(tuple(command), url, make, tuple((env or {}).items()), timeout_s)
        self._session: Replay[Connection, tuple[str, str], Answer] | None = None
        specs = _offered(self._address)
        if only_tools is not None:
            wanted = tuple(only_tools)
            if unknown := set(wanted) - {spec.name for spec in specs}:
                raise ContractError(f"the server has no tool {min(unknown)!r}")
            specs = tuple(spec for spec in specs if spec.name in wanted)
        self.toolbox = Toolbox([_tool(spec) for spec in specs])
        self.tools = self.toolbox.specs
        self.action_space = ActionSpace(tools=self.tools)
        self._inline_owner = None  # a call waits for the server

    async def areset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> ResetResult:
        """A new server, which is started by the first call."""
        await self.aclose_session()
        address = self._address
        self._session = Replay(
            start=lambda: async_bridge.hop(Connection.open(address)),
            say=lambda connection, call: async_bridge.hop(connection.call(call)),
            stop=lambda connection: async_bridge.hop(connection.close()),
        )
        return await super().areset(seed=seed, options=options)

    async def astep(self, action: Message) -> StepResult:
        """Answer calls, or grade the answer; at the end the server is left."""
        result = await super().astep(action)
        if result[2]:
            await self.aclose_session()
        return result

    async def aclose(self) -> None:
        """Leave the server."""
        await self.aclose_session()

    async def aclose_session(self) -> None:
        """Leave this episode's server, if there is one."""
        if self._session is not None:
            await self._session.aclose()

    async def called(self, name: str, arguments: Mapping[str, Any]) -> str:
        """A tool's answer.

        Raises:
            ValueError: the tool failed; in its own words.
        """
        assert self._session is not None
        answer = await self._session.send((name, json.dumps(arguments)))
        if answer.is_error:
            raise ValueError(answer.text or "no reason was given")
        return answer.text

    @reward
    def correct(self, answer: str, target: Any) -> float:
        """1 if the final message is the target's text."""
        return float(answer.strip() == (target if isinstance(target, str) else json.dumps(target)).strip())


@functools.cache
def _offered(address: ServerAddress) -> tuple[ToolSpec, ...]:
    """The tools of a server, asked once per process."""

    async def ask() -> tuple[ToolSpec, ...]:
        connection = await Connection.open(address)
        try:
            return await connection.tools()
        finally:
            await connection.close()

    return async_bridge.run(ask())


def _tool(spec: ToolSpec) -> Tool:
    async def call(env: MCP, /, **arguments: Any) -> str:
        return await env.called(spec.name, arguments)

    return Tool(spec, call, _object, takes_env=True, is_async=True)


def _object(text: str) -> dict[str, Any]:
    arguments = json.loads(text)
    if not isinstance(arguments, dict):
        raise ValueError("they must be an object.")
    return arguments


@functools.cache
def demo_tasks() -> GeneratedTasks:
    """Questions about the store room: take or put pieces of an article two to four times; how many are there then?"""
    return GeneratedTasks("mcp-store-room", _question, sizes={"train": None, "test": 2_000})


def _question(rng: np.random.Generator) -> Task:
    article = str(rng.choice(list(STOCK)))
    shelf, calls, told = Shelf(), [], []
    for _ in range(int(rng.integers(2, 5))):
        there = shelf.count(article)
        if rng.random() < 0.5 and there > 1:
            pieces = int(rng.integers(1, min(there, 50)))
            shelf.take(article, pieces)
            calls.append(["take", {"article": article, "pieces": pieces}])
            told.append(f"take {pieces} out")
        else:
            pieces = int(rng.integers(1, 50))
            shelf.put(article, pieces)
            calls.append(["put", {"article": article, "pieces": pieces}])
            told.append(f"put {pieces} in")
    asked = (
        f"Of the {article}, {', then '.join(told)}. How many are there then? Answer with the number alone."
    )
    return Task(id="question", prompt=(user(asked),), target=shelf.count(article), metadata={"calls": calls})


@functools.lru_cache(maxsize=16)
def file_tasks(path: str) -> RowTasks:
    """The tasks of a JSONL file; rows that name no split are divided by a hash of their prompt."""
    rows = read_rows(path)
    named: dict[str, list[Row]] = {"train": [], "test": []}
    others: list[Row] = []
    for row in rows:
        split = row.get("split")
        if split is not None and split not in named:
            raise ContractError(f"{path}: a row's split is train or test, not {split!r}")
        (others if split is None else named[split]).append(row)
    divided = partition(others, test_share=0.2, by=lambda row: row["prompt"])
    return RowTasks(_task_of_row, **{split: [*named[split], *divided[split]] for split in named})


def _task_of_row(row: Row) -> Task:
    prompt = row["prompt"]
    messages = (user(prompt),) if isinstance(prompt, str) else tuple(map(Message.from_wire, prompt))
    metadata = {key: value for key, value in row.items() if key not in ("id", "prompt", "target", "split")}
    return Task(id=str(row.get("id", "")), prompt=messages, target=row["target"], metadata=metadata)
