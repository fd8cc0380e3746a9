"""The benchmark's questions as tasks, read from the files of the installed package.

Four categories of 200 tasks each, all derived from the same 200 conversations:

    base            the calls that are needed can be told from what the user says
    miss_func       a function that is needed is withheld, and offered one user turn later
    miss_param      the user leaves a value out, and gives it one turn later
    long_context    the same with very long files and lists

Source: Patil et al. 2025, "The Berkeley Function Calling Leaderboard (BFCL)"; data under Apache 2.0.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from turngym.envs.errors import MissingExtra
from turngym.envs.messages import FunctionSpec, ToolSpec, user
from turngym.envs.tasks import ListTasks, Task

CATEGORIES: Final = ("base", "miss_func", "miss_param", "long_context")
DOCS: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The benchmark's classes, and what their module and their documentation are called."""
# The documentation's type names, where they are not JSON schema's.
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "any": None}


def package_folder() -> Path:
    """Where `bfcl-eval` is installed.

    Raises:
        MissingExtra: it is not.
    """
    found = importlib.util.find_spec("bfcl_eval")
    if found is None or found.origin is None:
        raise MissingExtra(
            'turngym/BFCLMultiTurn-v0 needs the benchmark\'s files: pip install "turngym[bfcl]", then '
            "pip install --no-deps bfcl-eval (without its dependencies, whose pins conflict with everything)"
        )
    return Path(found.origin).parent


@functools.cache
def task_set(categories: tuple[str, ...]) -> ListTasks:
    """The tasks of some categories. A conversation is in one split only, whatever its category: a hash of its
    number decides, so that half of them are for training.

    Raises:
        ValueError: a category that there is not.
        MissingExtra: the package is not installed.
    """
    if not categories or not set(categories) <= set(CATEGORIES):
        raise ValueError(f"categories are some of {', '.join(CATEGORIES)}, not {', '.join(categories)}")
    splits: dict[str, list[Task]] = {"train": [], "test": []}
    for category in categories:
        for row, answer in zip(_rows(f"BFCL_v4_multi_turn_{category}"), _answers(category), strict=True):
            number = row["id"].rpartition("_")[2]
            splits[_split_of(number)].append(_task(row, answer, category))
    return ListTasks(**splits)


def _task(row: Mapping[str, Any], answer: Mapping[str, Any], category: str) -> Task:
    assert row["id"] == answer["id"]
    turns = [_said(turn) for turn in row["question"]]
    return Task(
        id=row["id"].removeprefix("multi_turn_"),
        prompt=(user(turns[0] or ""),),
        target=answer["ground_truth"],
        metadata={
            "category": category,
            "classes": row["involved_classes"],
            "initial": row["initial_config"],
            "turns": turns,
            "excluded": row.get("excluded_function", []),
            "withheld": _withheld(row, answer),
        },
        tags=(category,),
    )


def _withheld(row: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, list[str]]:
    """Functions that are offered only from some turn on, by the number of that turn.

    One that the reference solution itself calls before (`tail` in miss_func_49) is offered from the start: the
    benchmark's own checker runs every call, offered or not, so that such a task is solvable there too.
    """
    withheld = {}
    for turn, names in row.get("missed_function", {}).items():
        needed = {call.split("(")[0] for calls in answer["ground_truth"][: int(turn)] for call in calls}
        withheld[turn] = [name for name in names if name not in needed]
    return withheld


def _said(turn: list[dict[str, str]]) -> str | None:
    """What the user says in a turn; None where only functions are added."""
    return "\n".join(message["content"] for message in turn) if turn else None


def _split_of(number: str) -> str:
    return ("train", "test")[hashlib.sha256(number.encode()).digest()[0] % 2]


def _rows(name: str) -> list[dict[str, Any]]:
    return _lines(package_folder() / "data" / f"{name}.json")


def _answers(category: str) -> list[dict[str, Any]]:
    return _lines(package_folder() / "data" / "possible_answer" / f"BFCL_v4_multi_turn_{category}.json")


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


@functools.cache
def functions_of(class_name: str) -> tuple[ToolSpec, ...]:
    """What the documentation says of a class's functions, with JSON schema's names of types."""
    specs = []
    for entry in _lines(package_folder() / "data" / "multi_turn_func_doc" / f"{DOCS[class_name]}.json"):
        parameters = _schema(entry["parameters"])
        specs.append(
            ToolSpec(
                function=FunctionSpec(
                    name=entry["name"], description=entry["description"], parameters=parameters
                )
            )
        )
    return tuple(specs)


def _schema(described: Any) -> Any:
    """A description of a value as JSON schema."""
    if isinstance(described, list):
        return [_schema(item) for item in described]
    if not isinstance(described, Mapping):
        return described
    out = {key: _schema(value) for key, value in described.items()}
    kind = described.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        out["type"] = _TYPES[kind]
        if out["type"] is None:
            del out["type"]
    return out
