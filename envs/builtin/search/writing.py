"""The documents of a world: every fact stands in one of them, and some only mention what others are about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.schema import RELATIONS, Value, relations_of
from turngym.envs.builtin.search.world import World

_SENTENCE: Final = re.compile(r"(?<=\.) ")

# Sentences that state no relation, so that a document does not consist of answers alone.
_PADDING: Final = {
    "person": (
        "{s} collects old maps.", "Colleagues praise a dry sense of humour.", "{s} rarely gives interviews.",
        "A portrait hangs in the local museum.",
    ),
    "company": (
        "{s} keeps an archive that is open on Tuesdays.", "The workshop can be visited by appointment.",
        "Its trademark is a small black bird.", "{s} has won several medals at fairs.",
    ),
    "work": (
        "Critics were divided at first.", "{s} is still discussed in schools.", "An early draft is thought to be lost.",
        "A revised version circulates in copies.",
    ),
    "town": (
        "The weekly market is held under old lime trees.", "Its wooden bridges are often drawn.",
        "The town hall burned down and was rebuilt.", "Trains stop here twice a day.",
    ),
    "region": ("Its hills are rich in slate.", "{s} is thinly settled in the east.", "Winters are long and dry."),
    "lake": ("{s} freezes over in most winters.", "Perch and pike are caught here.", "A ferry crosses it in summer."),
}  # fmt: skip
_OPENINGS: Final = {"person": "{s} leads a quiet life.", "lake": "{s} is a clear, cold water."}
_MENTIONS: Final = (
    "A delegation spoke at length about {a} and, in passing, about {b}.",
    "A letter to the editor compares {a} with {b}.",
    "The calendar lists an evening on {a}.",
    "Visitors asked about {a} more often than about {b}.",
    "A photograph of {a} was sold at auction.",
)
_NOTES: Final = ("Chronicle of the {} Society", "Letters from {}", "Notes of the {} Club", "The {} Gazette")


@dataclass(frozen=True, slots=True)
class Document:
    """One page of the library."""

    id: str
    """By which it is read and cited."""
    title: str
    """The name of what it is about."""
    sentences: tuple[str, ...]
    """What it says."""

    @property
    def text(self) -> str:
        """Its sentences in a row."""
        return " ".join(self.sentences)


def write_documents(world: World, seed: int, size: int) -> tuple[Document, ...]:
    """One document for each thing, and notes until there are `size`; their order and ids say nothing."""
    dice = Dice.seeded(f"turngym/Search/documents/{seed}/{size}")
    pages = [(name, _about(world, dice, name)) for name in world.kinds]
    titles = set(world.kinds)
    names = list(world.kinds)
    while len(pages) < size:
        title, sentences = _note(names, dice)
        if title not in titles:
            titles.add(title)
            pages.append((title, sentences))
    width = max(4, len(str(len(pages) - 1)))
    mixed = dice.shuffled(pages)
    return tuple(
        Document(f"d{number:0{width}}", title, sentences) for number, (title, sentences) in enumerate(mixed)
    )


def sentences_of(text: str) -> list[str]:
    """The sentences of a document's text."""
    return _SENTENCE.split(text)


def stated(sentences: list[str] | tuple[str, ...], relation: str) -> Value | None:
    """What some sentences say of their subject in a relation; None if nothing."""
    read = RELATIONS[relation].read
    return next((value for sentence in sentences if (value := read(sentence)) is not None), None)


def _about(world: World, dice: Dice, name: str) -> tuple[str, ...]:
    kind, word = world.kinds[name], world.words[name]
    facts = [
        (relation, dice.choice(relation.says), world.facts[name][relation.name])
        for relation in relations_of(kind)
        if relation.name in world.facts[name]
    ]
    padding = [(None, template, "") for template in dice.shuffled(_PADDING[kind])[: dice.pick(1, 2)]]
    opening = _OPENINGS.get(kind, f"{{s}} is a {word.removeprefix('The ')}.").format(s=name)
    sentences = [
        relation.sentence(template, word, value) if relation is not None else template.format(s=word)
        for relation, template, value in dice.shuffled([*facts, *padding])
    ]
    return (opening, *sentences)


def _note(names: list[str], dice: Dice) -> tuple[str, tuple[str, ...]]:
    title = dice.choice(_NOTES).format(dice.choice(names))
    chosen = dice.shuffled(_MENTIONS)[: dice.pick(2, 4)]
    return title, tuple(template.format(a=dice.choice(names), b=dice.choice(names)) for template in chosen)
