"""Players of `Search` without a model: the expert reads its way to the answer, random play looks things up at random.

The expert knows how the question is built (which relations to follow, in which order: from the task's metadata), and
learns everything else from what the tools say: it searches for the name in hand, reads what was found, and takes the
value from the sentence that states it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.questions import Branch, Hop, Query, compared
from turngym.envs.builtin.search.schema import RELATIONS, Value
from turngym.envs.builtin.search.writing import sentences_of, stated
from turngym.envs.messages import Message, ToolCall, assistant
from turngym.envs.tasks import Task

SEPARATOR: Final = " | "
"""Between the parts of a line that a search shows."""
_AT_ONCE: Final = 3
_FEW: Final = 5
_MANY: Final = 20
_STRAY: Final = ("the", "town", "founded by", '"', "NEAR(", "AND OR NOT", "title:x", "*", "ü", "1987", "")


@dataclass(frozen=True, slots=True)
class _Page:
    """A document as it was read."""

    id: str
    title: str
    sentences: list[str]


@dataclass(frozen=True, slots=True)
class _Line:
    """A document as a search showed it."""

    id: str
    title: str
    sentence: str


@dataclass(slots=True)
class _Notebook:
    """What the tools have said so far."""

    pages: dict[str, _Page] = field(default_factory=dict)
    """Documents by id."""
    found: dict[tuple[str, int], list[_Line]] = field(default_factory=dict)
    """For each search (query and limit) what it found, best first."""

    @classmethod
    def of(cls, history: Sequence[Message]) -> _Notebook:
        """Read a conversation."""
        notebook = cls()
        answers = {m.tool_call_id: m.text for m in history if m.role == "tool"}
        for call in (call for message in history for call in message.tool_calls):
            arguments, text = _arguments(call), answers.get(call.id, "")
            if call.name == "read" and "\n" in text:
                title, _, body = text.partition("\n")
                page = _Page(str(arguments.get("document_id")), title, sentences_of(body))
                notebook.pages[page.id] = page
            elif call.name == "search":
                lines = [line.split(SEPARATOR) for line in text.split("\n")]
                search = str(arguments.get("query")), arguments.get("limit", _FEW)
                notebook.found[search] = [_Line(*line) for line in lines if len(line) == 3]
        return notebook


def expert(task: Task, history: Sequence[Message], _rng: np.random.Generator) -> Message:
    """Follow the question's branches through the documents; then say the answer and what it stands in."""
    query, notebook = Query.of(task.metadata["query"]), _Notebook.of(history)
    numbers: dict[str, Value] = {}
    sources: list[str] = []
    for branch in query.branches:
        thing, end, pages = _followed(branch, notebook)
        sources += [page.id for page in pages]
        if len(pages) < len(branch.hops):
            return _look(str(end), branch.hops[len(pages)], notebook, len(history))
        numbers[thing] = end
    if query.form == "value":
        (answer,) = numbers.values()
    else:
        answer = compared(query.form, {thing: int(number) for thing, number in numbers.items()})
    return assistant(f"Answer: {answer}\nSources: {', '.join(sources)}")


def _followed(branch: Branch, notebook: _Notebook) -> tuple[str, Value, list[_Page]]:
    """As far as the documents read so far lead: the thing in hand before the last hop, the value in hand, and the
    documents used."""
    thing: Value = branch.start
    value: Value = branch.start
    pages: list[_Page] = []
    for hop in branch.hops:
        step = next(_steps(str(value), hop, notebook), None)
        if step is None:
            break
        page, reached = step
        pages.append(page)
        thing, value = value, reached
    return str(thing), value, pages


def _steps(name: str, hop: Hop, notebook: _Notebook) -> Iterator[tuple[_Page, Value]]:
    """Documents that take a hop from a name, and where to."""
    for page in notebook.pages.values():
        fits = page.title == name if hop.backward is None else stated(page.sentences, hop.backward) == name
        value: Value | None = page.title if hop.forward is None else stated(page.sentences, hop.forward)
        if fits and value is not None:
            yield page, value


def _look(name: str, hop: Hop, notebook: _Notebook, turn: int) -> Message:
    """Search for the document that a hop needs, or read what promises to be it; in the end, whatever was found."""
    back = hop.backward
    queries = (
        [name] if back is None else [said.format(s="", o=name).strip(" .") for said in RELATIONS[back].says]
    )
    searches = [(query, limit) for limit in (_FEW, _MANY) for query in queries]
    for search in searches:
        if search not in notebook.found:
            arguments = {"query": search[0], "limit": search[1]}
            return assistant(None, ToolCall.of("search", arguments, id=f"call_{turn}"))
        for line in notebook.found[search]:
            promising = line.title == name if back is None else stated([line.sentence], back) == name
            if promising and line.id not in notebook.pages:
                return _read([line.id], turn)
    seen = {line.id for search in searches for line in notebook.found[search] if line.title != name}
    unread = sorted(seen - notebook.pages.keys())
    return _read(unread[:_AT_ONCE], turn) if unread else assistant("I cannot find it.")


def _read(ids: Sequence[str], turn: int) -> Message:
    calls = [
        ToolCall.of("read", {"document_id": id}, id=f"call_{turn}_{number}") for number, id in enumerate(ids)
    ]
    return assistant(None, *calls)


def random_reader(task: Task, history: Sequence[Message], rng: np.random.Generator) -> Message:
    """Search for words of the question and of what was read, read what was found, and answer at random."""
    dice = Dice.of(rng)
    notebook = _Notebook.of(history)
    ids = [line.id for lines in notebook.found.values() for line in lines] or ["d0000", "d9999", "x"]
    kind = dice.below(8)
    if kind < 4:
        words = " ".join(m.text for m in history[-2:] if m.role in ("user", "tool")).split() or ["x"]
        start = dice.below(len(words))
        query = dice.choice((" ".join(words[start : start + dice.pick(1, 5)]), dice.choice(_STRAY)))
        arguments: dict[str, Any] = {"query": query}
        if dice.chance(0.5):
            arguments["limit"] = dice.pick(0, 21)
        return assistant(None, ToolCall.of("search", arguments, id=f"call_{len(history)}"))
    if kind < 7:
        return assistant(
            None, ToolCall.of("read", {"document_id": dice.choice(ids)}, id=f"call_{len(history)}")
        )
    titles = [line.title for lines in notebook.found.values() for line in lines] or ["1987"]
    cited = ", ".join(dice.choice(ids) for _ in range(dice.pick(1, 3)))
    answer = f"Answer: {dice.choice(titles)}\nSources: {cited}"
    return assistant(dice.choice((answer, answer, answer.replace("\n", " "), task.prompt[-1].text, "")))


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.function.arguments)
    except ValueError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
