"""Documents with a full-text index: SQLite's FTS5 in memory, one for each process, shared by all episodes."""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from turngym.envs.builtin.search.questions import Asker
from turngym.envs.builtin.search.world import make_world
from turngym.envs.builtin.search.writing import Document, write_documents
from turngym.envs.errors import InfrastructureError

MOST_WORDS: Final = 32
"""Words of a query that are looked up; further ones are left out."""
_LONGEST_QUERY: Final = 4000
_WORD: Final = re.compile(r"[^\W_]+")
# Words that are in most documents or queries and tell nothing apart: looking them up would only cost time.
_COMMON: Final = frozenset(
    _WORD.findall(
        "a an and are as at be by did do does for from has have he her his how in is it its many of on or she that the "
        "their them they this to was were what when where which who whom whose with"
    )
)
_RARE: Final = 1 / 20
"""A word is rare if at most this share of the documents holds it."""
# Title and text; a word of the title counts four times. `rowid` makes the order of equals the same every time.
_FIND: Final = "SELECT rowid FROM page WHERE page MATCH ? ORDER BY bm25(page, 4.0, 1.0), rowid LIMIT ?"


@dataclass(frozen=True, slots=True)
class Hit:
    """One document that a search found."""

    document: Document
    """The document."""
    sentence: str
    """The sentence of it that holds most of the query's words."""


class Library:
    """Documents that can be searched and read, from any number of threads.

    An index belongs to the process that made it: a forked child makes its own at its first search.

    Args:
        world_seed: number of the world.
        size: number of documents.
    """

    def __init__(self, world_seed: int, size: int) -> None:
        self._made_from = (world_seed, size)
        self.world = make_world(world_seed, size)
        """What the documents tell."""
        self.documents = write_documents(self.world, world_seed, size)
        """All of them."""
        self.by_id = {document.id: document for document in self.documents}
        """The documents by id."""
        self.by_title = {document.title: document for document in self.documents}
        """The documents by title."""
        self.asker = Asker(self.world)
        """Makes questions about them."""
        self._titles = {" ".join(words_of(d.title)): row for row, d in enumerate(self.documents)}
        self._words = lru_cache(maxsize=None)(self._words_of_sentences)
        counts = Counter(
            word for document in self.documents for word in set(words_of(f"{document.title} {document.text}"))
        )
        most = max(1, int(len(self.documents) * _RARE))
        self._rare = frozenset(word for word, count in counts.items() if count <= most)
        self._indexes: dict[int, tuple[sqlite3.Connection, threading.Lock]] = {}

    def search(self, query: str, limit: int) -> list[Hit]:
        """The documents that fit a query best, by BM25 over its words; any text is a query.

        Each of them holds a rare word of the query, if the query has any that occurs at all. A document whose title
        is the query comes first.

        Raises:
            InfrastructureError: this Python's SQLite knows no full-text search.
        """
        words = wanted_words(query)
        if not words:
            return []
        connection, lock = self._index()
        with lock:
            rows = connection.execute(_FIND, (self._expression(words), limit)).fetchall()
        found = [row for (row,) in rows]
        titled = self._titles.get(" ".join(words_of(query[:_LONGEST_QUERY])))
        if titled is not None:
            found = [titled, *(row for row in found if row != titled)][:limit]
        return [Hit(self.documents[row], self._best_sentence(row, words)) for row in found]

    def _expression(self, words: Sequence[str]) -> str:
        """The words in FTS5's language, each in quotes, so that none of them is an operator.

        That a rare word must be there changes the order little and saves ranking half of the library for a word
        like "company".
        """
        any_word = _any_of(words)
        rare = [word for word in words if word in self._rare]
        return f"({_any_of(rare)}) AND ({any_word})" if 0 < len(rare) < len(words) else any_word

    def _best_sentence(self, row: int, words: Sequence[str]) -> str:
        return max(self._words(row), key=lambda pair: len(pair[1].intersection(words)))[0]

    def _words_of_sentences(self, row: int) -> list[tuple[str, frozenset[str]]]:
        return [(sentence, frozenset(words_of(sentence))) for sentence in self.documents[row].sentences]

    def _index(self) -> tuple[sqlite3.Connection, threading.Lock]:
        process = os.getpid()
        if process not in self._indexes:
            # What a parent process made stays in the dictionary: closing a connection after a fork is no safer
            # than using it. Two threads that come first at the same time make one too many, once.
            self._indexes[process] = (_indexed(self.documents), threading.Lock())
        return self._indexes[process]

    def __reduce__(self) -> Any:
        return library, self._made_from


def _indexed(documents: Sequence[Document]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    try:
        connection.execute("CREATE VIRTUAL TABLE page USING fts5(title, text, tokenize='porter unicode61')")
    except sqlite3.OperationalError as error:
        raise InfrastructureError(f"this Python's SQLite has no full-text search (FTS5): {error}") from error
    rows = ((row, document.title, document.text) for row, document in enumerate(documents))
    connection.executemany("INSERT INTO page(rowid, title, text) VALUES (?, ?, ?)", rows)
    connection.execute("INSERT INTO page(page) VALUES ('optimize')")
    connection.commit()
    return connection


def _any_of(words: Sequence[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def words_of(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters and digits, in any script."""
    return _WORD.findall(text.lower())


def wanted_words(query: str) -> list[str]:
    """The words of a query that are looked up: without the most common ones, unless there are no others."""
    words = list(dict.fromkeys(words_of(query[:_LONGEST_QUERY])))
    return ([word for word in words if word not in _COMMON] or words)[:MOST_WORDS]


@lru_cache(maxsize=8)
def library(world_seed: int, size: int) -> Library:
    """The library of a world; made once in a process."""
    return Library(world_seed, size)
