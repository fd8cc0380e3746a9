"""Search: answer a question whose facts stand in several documents of a library, and say in which."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from pydantic import Field

from turngym.envs.builtin.search.answers import FORMAT, Citations, citations, is_same, read_reply
from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.library import library
from turngym.envs.builtin.search.policies import SEPARATOR, expert, random_reader
from turngym.envs.builtin.search.questions import KINDS, MOST_HOPS, Kind
from turngym.envs.messages import user
from turngym.envs.rewards import reward
from turngym.envs.tasks import GeneratedTasks, Task
from turngym.envs.tool_env import ToolEnv
from turngym.envs.tools import tool

FEWEST_DOCUMENTS: Final = 200
MOST_DOCUMENTS: Final = 20_000
_MOST_HITS: Final = 20


class Search(ToolEnv):
    """Answer questions of one to four hops over a library of invented documents, and cite those that state the facts.

    The final message is two lines, `Answer: …` and `Sources: …` with the documents' ids, and nothing else. The reward
    is 0.5 for the right answer and, only with it, 0.5 times the F1 of the cited documents against those that are
    needed; so the maximum, 1, is for the right answer with exactly the needed documents.

    Metrics: `success` (the maximum was reached), `form` (the two lines were found), `precision`, `recall` (of the
    citations), `calls`, `errors`.

    Args:
        world_seed: number of the world; another one has other names and facts.
        size: number of documents, 200 to 20,000.
        least_hops: fewest documents that a question needs.
        most_hops: greatest number of them.
        kinds: "bridge" follows one chain of facts; "comparison" compares numbers (and needs two hops or more).
        max_turns: a rule: the episode ends after so many messages.
        split: "train" (endless) or "test" (10,000 questions, none of which is in train), about the same world.

    Raises:
        ValueError: an argument out of bounds.
        InfrastructureError: at a search, if this Python's SQLite knows no full-text search.
    """

    shared: ClassVar[tuple[str, ...]] = ("library",)
    system_prompt = (
        "Answer the question with the help of the library: search finds documents, read shows one. Everything in it "
        "is invented, so rely on nothing else. Your final message must be exactly two lines:\n"
        f"{FORMAT}\n"
        "Cite the documents that state the facts which lead to the answer: each of them, and no others."
    )
    policies: ClassVar = {"expert": expert, "random": random_reader}

    def __init__(
        self,
        *,
        world_seed: int = 0,
        size: int = 1000,
        least_hops: int = 1,
        most_hops: int = MOST_HOPS,
        kinds: Iterable[Kind] = KINDS,
        max_turns: int = 24,
        split: str | None = None,
        **kwargs: Any,
    ) -> None:
        kinds = tuple(kinds)
        _check(size, least_hops, most_hops, kinds)
        self.library = library(world_seed, size)
        """The documents; shared by all episodes of this process."""
        generate = functools.partial(
            random_question, world_seed=world_seed, size=size, hops=(least_hops, most_hops), kinds=kinds
        )
        name = f"search-{world_seed}-{size}-{least_hops}-{most_hops}-{'-'.join(kinds)}"
        tasks = GeneratedTasks(name, generate, sizes={"train": None, "test": 10_000})
        super().__init__(tasks=tasks, split=split, max_turns=max_turns, **kwargs)

    @tool
    def search(self, query: str, limit: Annotated[int, Field(ge=1, le=_MOST_HITS)] = 5) -> str:
        """Find documents by the words in them, best first. One line for each: id, title, the sentence that fits best.

        Args:
            query: words; there are no operators.
            limit: the most documents to show.
        """
        hits = self.library.search(query, limit)
        lines = [SEPARATOR.join((hit.document.id, hit.document.title, hit.sentence)) for hit in hits]
        return "\n".join(lines) or "No document has any of these words."

    @tool
    def read(self, document_id: str) -> str:
        """Read a document: its title, then its text.

        Args:
            document_id: as a search shows it, such as d0042.
        """
        document = self.library.by_id.get(document_id)
        if document is None:
            raise ValueError(f"there is no document {document_id[:100]!r}; a search shows the ids.")
        return f"{document.title}\n{document.text}"

    @reward(weight=0.5)
    def correct(self, answer: str, target: dict[str, Any]) -> float:
        """1 if the answer has the right value."""
        reply = read_reply(answer)
        return float(reply is not None and is_same(reply.answer, target["answer"]))

    @reward(weight=0.5)
    def cited(self, answer: str, target: dict[str, Any]) -> float:
        """F1 of the citations; 0 without the right answer, which could be guessed no matter what is cited."""
        return self.correct(answer, target) * self._citations(answer, target).f1

    @reward(weight=0)
    def success(self, answer: str, target: dict[str, Any]) -> float:
        """1 for the right answer with exactly the needed documents."""
        return float(self.cited(answer, target) == 1.0)

    @reward(weight=0)
    def form(self, answer: str) -> float:
        """1 if the final message is the two lines."""
        return float(read_reply(answer) is not None)

    @reward(weight=0)
    def precision(self, answer: str, target: dict[str, Any]) -> float:
        """Share of the cited documents that are needed."""
        return self._citations(answer, target).precision

    @reward(weight=0)
    def recall(self, answer: str, target: dict[str, Any]) -> float:
        """Share of the needed documents that are cited."""
        return self._citations(answer, target).recall

    def _citations(self, answer: str, target: dict[str, Any]) -> Citations:
        reply = read_reply(answer)
        return citations(reply.sources if reply else frozenset(), frozenset(target["sources"]))


def random_question(
    rng: np.random.Generator, *, world_seed: int, size: int, hops: tuple[int, int], kinds: tuple[Kind, ...]
) -> Task:
    """A question about a world; its id is left to the task set."""
    dice = Dice.of(rng)
    shelf = library(world_seed, size)
    count = dice.pick(*hops)
    kind = dice.choice([kind for kind in kinds if kind == "bridge" or count > 1])
    question = shelf.asker.ask(dice, kind, count)
    sources = [shelf.by_title[about].id for about in question.evidence]
    return Task(
        id="question",
        prompt=(user(question.text),),
        target={"answer": question.answer, "sources": sources},
        metadata={"query": question.query.data()},
        tags=(kind, f"{count} hops" if count > 1 else "1 hop"),
    )


def _check(size: int, least_hops: int, most_hops: int, kinds: tuple[Kind, ...]) -> None:
    if not FEWEST_DOCUMENTS <= size <= MOST_DOCUMENTS:
        raise ValueError(f"size is {FEWEST_DOCUMENTS} to {MOST_DOCUMENTS:,} documents, not {size}")
    if not kinds or not set(kinds) <= set(KINDS):
        raise ValueError(f"kinds are some of {', '.join(KINDS)}, not {', '.join(kinds)}")
    fewest = 1 if "bridge" in kinds else 2
    if not fewest <= least_hops <= most_hops <= MOST_HOPS:
        raise ValueError(
            f"expected {fewest} ≤ least_hops ≤ most_hops ≤ {MOST_HOPS}, got {least_hops}, {most_hops}"
        )
