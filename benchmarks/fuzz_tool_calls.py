"""Mutated tool calls: each must be answered, once and in order, and none may raise.

    python benchmarks/fuzz_tool_calls.py [--calls 1000000] [--seed 0] [--env ID …]

Valid calls of several environments (those of their experts, and random ones that fit the schemas) are mutated as bytes,
as JSON and as messages. A failure prints what was said, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel

from turngym.envs import (
    Env,
    Message,
    ReferencePolicy,
    Task,
    ToolCall,
    ToolEnv,
    ToolSpec,
    assistant,
    make,
    questions,
    reference_policy,
    reward,
    tool,
)
from turngym.envs.messages import FunctionCall
from turngym.envs.sampling import random_value
from turngym.envs.tasks import iterate

IDS = ("turngym/Calculator-v0", "turngym/BFCLMultiTurn-v0", "turngym/Retail-v0")
TASKS = 20
"""Of each environment, at most."""
MOST_CALLS = 12
"""Of one message."""
MOST_TURNS = 40
"""Of one episode."""
Rng = np.random.Generator

ODD_TEXTS = (
    "", " ", "\x00", "\ud800", "\udcff", "\u2028", "\u202e", "\ufeff", "\U0001f600", "é", "e\u0301", "'", '"',
    "\\", "\\u0000", "NaN", "null", "true", "None", "<tool_call>", "</tool_call>", "<|im_end|>", "{{", "%s",
    "../../etc/passwd", "'; DROP TABLE orders; --", "x" * 5000, "9" * 5000, "__class__", "__init__", "self", "env",
    "\n" * 50,
)  # fmt: skip
ODD_JSON = (
    "null", "true", "false", "0", "-0", "-1", "1.0", "1e5", "1e999", "-1e999", "NaN", "Infinity", "9" * 400,
    "9" * 5000, "1E-400", "[]", "{}", "[[]]", "[null]", '[{"a": [1, 2, {"b": null}]}]', '""', '"1"', '"\\ud800"',
    '"\\u0000"', "[" * 120 + "]" * 120, "[" * 3000, "{" * 3000, '{"a":' * 500, "'1'", "None", "True", "1_000",
    "0x10", "01", ".5", "+1", "1,", "/* */1",
)  # fmt: skip


class Box(BaseModel):
    """A record in a record."""

    width: int
    label: str | None = None
    inside: list[Box] = []


class Shelf:
    """Tools from a class."""

    def __init__(self) -> None:
        self.things: dict[str, Any] = {}

    def put(self, name: str, thing: Box) -> int:
        """Put something on the shelf."""
        self.things[name] = thing
        return len(self.things)

    async def take(self, name: str) -> str:
        """Take it back."""
        await asyncio.sleep(0)
        return str(self.things.pop(name))


class Zoo(ToolEnv):
    """A tool for every sort of argument."""

    tasks = questions(train={f"{n}?": str(n) for n in range(50)})
    tool_classes = (Shelf,)
    max_turns = MOST_TURNS

    @tool
    def types(
        self,
        a: int,
        b: float = 1.5,
        c: bool = False,
        d: str | None = None,
        e: Literal["x", "y", 3] = "x",
        f: list[int] | dict[str, float] | None = None,
    ) -> dict[str, Any]:
        """Every simple type."""
        return {"a": a / b, "c": c, "d": d, "e": e, "f": f}

    @tool(strict=False)
    def lenient(self, n: int, when: tuple[int, str] = (1, "x"), any: Any = None) -> Any:
        """Converts what it can."""
        return [n, when, any]

    @tool
    def fails(self, how: str) -> str:
        """Raises, or gives odd results."""
        return {"a": "\ud800", "b": "", "": "x" * 10_000}[how]

    @reward
    def correct(self, answer: str, target: str) -> float:
        return float(answer == target)


@dataclass(frozen=True, slots=True)
class Arena:
    """One environment under fire."""

    name: str
    env: Env
    plays: tuple[tuple[Task, tuple[ToolCall, ...]], ...]
    """Tasks, each with calls that are valid there."""


@dataclass
class Tally:
    """What came of it."""

    calls: int = 0
    messages: int = 0
    episodes: int = 0
    accepted: int = 0
    """Calls whose answer begins with no "Error"."""
    seconds: float = 0.0


class Broken(AssertionError):
    """A call was not answered as it must be."""


def arenas(ids: Sequence[str], seed: int) -> list[Arena]:
    """The environments with their valid calls."""
    found = []
    for name, env in [("Zoo", Zoo()), *((id, make(id)) for id in ids)]:
        rng = np.random.default_rng(seed)
        expert = None if name == "Zoo" else reference_policy(name, "expert")
        plays = []
        size = env.tasks.size(env.split)
        for task in iterate(env.tasks, env.split, TASKS if size is None else min(TASKS, size)):
            own = [] if expert is None else _expert_calls(env, task, expert, rng)
            plays.append((task, (*own, *_random_calls(env.tools, rng, 10 if own else 60))))
        found.append(Arena(name, env, tuple(plays)))
    return found


def _expert_calls(env: Env, task: Task, expert: ReferencePolicy, rng: Rng) -> list[ToolCall]:
    env.reset(seed=0, options={"task": task})
    calls: list[ToolCall] = []
    for _ in range(MOST_TURNS):
        message = expert(task, tuple(env.history), rng)
        calls += message.tool_calls
        _, _, terminated, truncated, _ = env.step(message)
        if terminated or truncated:
            break
    return calls


def _random_calls(tools: Sequence[ToolSpec], rng: Rng, count: int) -> Iterator[ToolCall]:
    for number in range(count):
        spec = tools[number % len(tools)]
        yield ToolCall.of(spec.name, random_value(spec.function.parameters, rng))


def fuzz(places: Sequence[Arena], calls: int, seed: int) -> dict[str, Tally]:
    """Fire `calls` mutated calls, spread over the environments.

    Raises:
        Broken: one raised, or was not answered once and in order; says with what.
    """
    tallies = {place.name: Tally() for place in places}
    for number, place in enumerate(places):
        rng = np.random.default_rng([seed, number])
        share = calls // len(places) + (number < calls % len(places))
        started = perf_counter()
        _fire(place, share, rng, tallies[place.name])
        tallies[place.name].seconds = perf_counter() - started
    return tallies


def _fire(place: Arena, calls: int, rng: Rng, tally: Tally) -> None:
    env, turns, is_over = place.env, 0, True
    while tally.calls < calls:
        if is_over or turns == MOST_TURNS:
            task, valid = place.plays[int(rng.integers(len(place.plays)))]
            env.reset(seed=int(rng.integers(2**31)), options={"task": task})
            tally.episodes, turns = tally.episodes + 1, 0
        message = mutated_message(valid, rng, most=calls - tally.calls)
        try:
            observation, _, terminated, truncated, _ = env.step(message)
        except Exception as error:
            raise Broken(f"{place.name}: {type(error).__name__}: {error}\nafter {message!r:.2000}") from error
        answers = [answer for answer in observation if answer.role == "tool"]
        asked = [call.id for call in message.tool_calls]
        if [answer.tool_call_id for answer in answers] != asked:
            raise Broken(f"{place.name}: asked {asked}, answered {answers!r:.500}\nafter {message!r:.2000}")
        tally.accepted += sum(not answer.text.startswith("Error") for answer in answers)
        tally.calls += len(asked)
        tally.messages += 1
        turns, is_over = turns + 1, terminated or truncated


def mutated_message(calls: Sequence[ToolCall], rng: Rng, *, most: int) -> Message:
    """A message with some calls: two in three are mutated, up to three times."""
    count = min(most, 1 + int(rng.integers(4) if rng.random() < 0.9 else rng.integers(MOST_CALLS)))
    chosen = []
    for number in range(count):
        call = calls[int(rng.integers(len(calls)))].model_copy(update={"id": f"call_{number}"})
        for _ in range(int(rng.integers(1, 4)) if rng.random() < 2 / 3 else 0):
            call = MUTATIONS[int(rng.integers(len(MUTATIONS)))](call, calls, rng)
        chosen.append(call)
    if rng.random() < 0.05:
        chosen = chosen[::-1]
    if rng.random() < 0.05:
        chosen[-1] = chosen[0]  # the same call, the same id
    text = None if rng.random() < 0.7 else _odd(rng)
    message = assistant(text, *chosen)
    if rng.random() < 0.1:
        message = message.model_copy(update={"reasoning_content": _odd(rng)})
    return message


Mutation = Callable[[ToolCall, Sequence[ToolCall], Rng], ToolCall]


def _with(call: ToolCall, *, name: str | None = None, arguments: str | None = None) -> ToolCall:
    function = FunctionCall(
        name=call.name if name is None else name,
        arguments=call.function.arguments if arguments is None else arguments,
    )
    return call.model_copy(update={"function": function})


def change_bytes(call: ToolCall, _calls: Sequence[ToolCall], rng: Rng) -> ToolCall:
    """Flip, insert, delete, repeat or cut bytes of the arguments."""
    data = bytearray(call.function.arguments.encode("utf-8", "surrogatepass"))
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(len(data) + 1))
        match int(rng.integers(5)):
            case 0 if place < len(data):
                data[place] ^= 1 << int(rng.integers(8))
            case 1:
                data.insert(place, int(rng.integers(256)))
            case 2:
                del data[place : place + int(rng.integers(1, 5))]
            case 3:
                data[place:place] = data[place : place + int(rng.integers(1, 20))]
            case 4:
                del data[place:]
    return _with(call, arguments=data.decode("utf-8", "surrogateescape"))


def change_json(call: ToolCall, _calls: Sequence[ToolCall], rng: Rng) -> ToolCall:
    """Replace, drop, add, rename or repeat arguments, or wrap them all in something else."""
    try:
        arguments = json.loads(call.function.arguments)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        return _with(call, arguments=ODD_JSON[int(rng.integers(len(ODD_JSON)))])
    pairs = [(json.dumps(key), json.dumps(value)) for key, value in arguments.items()]
    place = int(rng.integers(len(pairs) + 1))
    odd = ODD_JSON[int(rng.integers(len(ODD_JSON)))]
    match int(rng.integers(7)):
        case 0 if place < len(pairs):
            pairs[place] = (pairs[place][0], odd)
        case 1 if place < len(pairs):
            del pairs[place]
        case 2:
            pairs.insert(place, (json.dumps(_odd(rng)), odd))
        case 3 if place < len(pairs):
            pairs[place] = (json.dumps(_odd(rng)), pairs[place][1])
        case 4 if place < len(pairs):
            pairs.insert(int(rng.integers(len(pairs) + 1)), (pairs[place][0], odd))
        case 5 if place < len(pairs):
            pairs[place] = (pairs[place][0], json.dumps(_odd(rng)))
        case 6:
            text = call.function.arguments
            wrapped = (
                f"[{text}]",
                json.dumps(text),
                f"{text}{text}",
                f"```json\n{text}\n```",
                f'{{"arguments": {text}}}',
            )
            return _with(call, arguments=wrapped[int(rng.integers(len(wrapped)))])
    return _with(call, arguments="{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}")


def change_address(call: ToolCall, calls: Sequence[ToolCall], rng: Rng) -> ToolCall:
    """Another tool's name, no tool's name, another id, or a call that could not be parsed."""
    match int(rng.integers(6)):
        case 0:
            return _with(call, name=calls[int(rng.integers(len(calls)))].name)
        case 1:
            return _with(call, name=_odd(rng))
        case 2:
            place = int(rng.integers(len(call.name) + 1))
            return _with(call, name=call.name[:place] + _odd(rng)[:3] + call.name[place + 1 :])
        case 3:
            return call.model_copy(update={"id": _odd(rng)[:40]})
        case 4:
            return call.model_copy(update={"parse_error": _odd(rng)})
        case _:
            return _with(call, arguments=calls[int(rng.integers(len(calls)))].function.arguments)


MUTATIONS: tuple[Mutation, ...] = (change_bytes, change_json, change_address, change_json)


def _odd(rng: Rng) -> str:
    return ODD_TEXTS[int(rng.integers(len(ODD_TEXTS)))]


def main(argv: Sequence[str] | None = None) -> int:
    """Fire, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--env", action="append", metavar="ID", help="instead of the usual ones")
    options = parser.parse_args(argv)
    try:
        tallies = fuzz(arenas(options.env or IDS, options.seed), options.calls, options.seed)
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    print(f"{'environment':<28}{'calls':>12}{'messages':>12}{'episodes':>10}{'accepted':>10}{'calls/s':>10}")
    total = Tally()
    for name, tally in [*tallies.items(), ("all", total)]:
        share = tally.accepted / tally.calls
        rate = tally.calls / tally.seconds
        counts = f"{tally.calls:>12,}{tally.messages:>12,}{tally.episodes:>10,}"
        print(f"{name:<28}{counts}{share:>10.1%}{rate:>10,.0f}")
        for field in dataclasses.fields(Tally) if tally is not total else ():
            setattr(total, field.name, getattr(total, field.name) + getattr(tally, field.name))
    print("every call was answered once and in order; none raised")
    return 0


if __name__ == "__main__":
    sys.exit(main())
