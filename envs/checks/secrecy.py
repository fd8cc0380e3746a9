"""Checks that the hidden target stays hidden: from prompts, observations, tool descriptions, infos, tool results.

A target that is seen is not always a leak. The prompt may quote it; a tool may find it in the world, which is what
tools are for; a word such as "north" may be everywhere. So what is found is compared with an episode of another
task, and, where a tool or only a part of the target is concerned, with the same episode under another target: a text
that stays the same does not come from the target.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from turngym.envs.checks.probe import Played, Probe, require
from turngym.envs.env import Env
from turngym.envs.messages import Message
from turngym.envs.tasks import Task

SHORTEST_NEEDLE = 4
"""Shorter texts and numbers occur by chance; for them only the comparison of openings speaks."""

_NAMES = frozenset({"task_id", "task_hash", "limits", "tools", "anchor"})
"""Keys of an info that name things for runners and trainers, or are looked at elsewhere."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A text that could give the target away before the end."""

    where: str
    text: str
    is_asked_for: bool
    """True for the result of a tool."""


def target_is_hidden(probe: Probe) -> str:
    """Openings do not depend on the target, and nothing that is seen before the end spells it out."""
    openings = scanned = quoted = undecided = 0
    with closing(probe.make()) as env:
        for task, other in _pairs(probe.tasks()):
            _opening_ignores_target(probe, env, task, other)
            openings += 1
            prompt = " ".join(_words(message) for message in task.prompt)
            whole, parts = _needles(task.target)
            quoted += any(_holds(prompt, needle) for needle in whole)
            needles = {needle: needle in whole for needle in (*parts, *whole) if not _holds(prompt, needle)}
            for name in ("null", "random") if needles else ():
                places, doubts = _scan(probe, env, name, task, other, needles)
                scanned += places
                undecided += doubts
    return (
        f"{openings} openings compared, {scanned} texts scanned"
        + (f"; {quoted} prompts quote their target" if quoted else "")
        + (f"; {undecided} mentions could not be traced" if undecided else "")
    )


def _pairs(tasks: Sequence[Task]) -> Iterator[tuple[Task, Task]]:
    """Each task that has a target, with the next one that has another."""
    for number, task in enumerate(tasks):
        rest = (*tasks[number + 1 :], *tasks[:number])
        other = next((one for one in rest if one.target not in (None, task.target)), None)
        if task.target is not None and other is not None:
            yield task, other


def _opening_ignores_target(probe: Probe, env: Env, task: Task, other: Task) -> None:
    openings = []
    for asked in (task, task.model_copy(update={"target": other.target})):
        observation, info = env.reset(seed=probe.seed, options={"task": asked})
        own = {key: value for key, value in info.items() if key not in _NAMES}
        openings.append({"opening": observation, "tools": env.tools, "info of reset": own})
    for what, shown in openings[0].items():
        require(shown == openings[1][what], f"the {what} of task {task.id} depends on its hidden target")


def _scan(
    probe: Probe, env: Env, name: str, task: Task, other: Task, needles: Mapping[str, bool]
) -> tuple[int, int]:
    """Look for needles in an episode; how many texts there were, and how many mentions nobody can trace."""
    played = probe.play(env, probe.policy(name), task)
    spoken = " ".join(_words(message) for message in played.actions)
    places = list(_places(env, played))
    found = [
        (place, needle)
        for place in places
        for needle in needles
        if _holds(place.text, needle) and not _holds(spoken, needle)
    ]
    if not found:
        return len(places), 0
    elsewhere = " ".join(place.text for place in _places(env, probe.play(env, probe.policy(name), other)))
    found = [(place, needle) for place, needle in found if not _holds(elsewhere, needle)]
    swapped = {place.where: place.text for place in _swapped(probe, task, other, played)} if found else {}
    undecided = 0
    for place, needle in found:
        leaks = f"{place.where} of task {task.id} spells out its target ({needle[:40]!r})"
        require(not needles[needle] or place.is_asked_for, leaks)
        undecided += place.where not in swapped
        require(_holds(swapped.get(place.where, needle), needle), leaks)
    return len(places), undecided


def _swapped(probe: Probe, task: Task, other: Task, played: Played) -> Iterator[_Place]:
    """The same actions under another target, as far as they go."""
    if probe.nondeterministic:
        return
    with closing(probe.make()) as env:
        swapped = task.model_copy(update={"target": other.target})
        try:
            again = probe.replay(env, swapped, played.actions)
        except Exception:  # noqa: BLE001 (the other target does not fit this task: nothing can be compared)
            return
        yield from _places(env, again)


def _places(env: Env, played: Played) -> Iterator[_Place]:
    """Everything that could be seen before the end."""
    for tool in env.tools:
        yield _Place(f"the description of tool {tool.name}", " ".join(map(str, _leaves(tool))), False)
    yield from _of("the opening", *played.opening)
    for number, result in enumerate(played.results):
        if not (result[2] or result[3]):
            yield from _of(f"step {number}", result[0], result[4])


def _of(when: str, observation: tuple[Message, ...], info: Mapping[str, Any]) -> Iterator[_Place]:
    for number, message in enumerate(observation):
        what = "tool result" if message.role == "tool" else "message"
        yield _Place(f"{what} {number} in {when}", _words(message), message.role == "tool")
    for key, value in info.items():
        if key not in _NAMES:
            yield _Place(f"info[{key!r}] in {when}", " ".join(map(str, _leaves(value))), False)


def _needles(target: Any) -> tuple[frozenset[str], frozenset[str]]:
    """A target as texts that can be looked for: the whole of it, and the parts of one that has parts."""
    if isinstance(target, (Mapping, list, tuple)):
        whole = json.dumps(target, default=str)
        parts = {text for leaf in _leaves(target) if (text := _needle(leaf)) is not None}
        return frozenset({whole} if len(whole) >= SHORTEST_NEEDLE else ()), frozenset(parts)
    text = _needle(target)
    return frozenset(() if text is None else (text,)), frozenset()


def _needle(leaf: Any) -> str | None:
    if leaf is None or isinstance(leaf, bool):
        return None
    text = str(leaf).strip()
    return text if len(text) >= SHORTEST_NEEDLE else None


def _leaves(value: Any) -> Iterator[Any]:
    """What a nested value is made of; keys are structure, no content."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _holds(text: str, needle: str) -> bool:
    """True if the needle stands in the text as a word of its own ("rain" is not in "train", 1234 not in 12345)."""
    return needle.casefold() in (folded := text.casefold()) and _pattern(needle).search(folded) is not None


@functools.lru_cache(maxsize=4096)
def _pattern(needle: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(needle.casefold())}(?!\w)")


def _words(message: Message) -> str:
    calls = " ".join(call.function.arguments for call in message.tool_calls)
    return " ".join((message.text, message.reasoning_content or "", calls))
