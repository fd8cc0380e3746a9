"""Text to ids and back, so that a control token that somebody *typed* stays ordinary text.

A template writes control tokens such as `<|im_end|>`. A user or a tool may write the same characters, and a
plain tokenisation of the rendered conversation cannot tell the two apart. Here such look-alikes are put
between two marks before the template sees them, and what stands between marks is encoded as text. A
conversation without look-alikes gets exactly the ids of `apply_chat_template`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from turngym.agents.errors import TemplateError
from turngym.agents.parsing import TAGS, THINK_CLOSE, THINK_OPEN
from turngym.agents.templates.source import ChatTokenizer

_MARKS = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
"""Unicode's noncharacters: reserved for use inside a program, never for exchange."""

_THINK_TAGS = frozenset({THINK_OPEN, THINK_CLOSE})
_NOTHING = re.compile("(?!)")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Marks:
    """Two characters that occur nowhere in a conversation."""

    start: str
    """Stands before a typed control token."""
    end: str
    """Stands after it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Puts marks around the control tokens in a conversation's strings; without marks it changes nothing."""

    marks: Marks | None
    """The marks, or None where no string holds a control token."""
    typed: re.Pattern[str]
    """Finds what users, tools and environments must not write as a control token."""
    spoken: re.Pattern[str]
    """The same for assistants, whose thinking and tool-call tags are their own."""

    def content(self, text: str) -> str:
        """Text of a user, a tool or the system."""
        return self._mark(self.typed, text)

    def own(self, text: str) -> str:
        """Text of an assistant."""
        return self._mark(self.spoken, text)

    def content_of(self, value: Any) -> Any:
        """A JSON value with all its strings marked as content; keys are left alone."""
        return value if self.marks is None else _each_string(value, self.content, keys=False)

    def own_of(self, value: Any) -> Any:
        """A JSON value with all its strings, keys included, marked as an assistant's text."""
        return value if self.marks is None else _each_string(value, self.own, keys=True)

    def _mark(self, pattern: re.Pattern[str], text: str) -> str:
        if self.marks is None or not text:
            return text
        start, end = self.marks.start, self.marks.end
        return pattern.sub(lambda found: f"{start}{found[0]}{end}", text)


class TextCodec:
    """A tokenizer with a template's control tokens in mind."""

    def __init__(self, tokenizer: ChatTokenizer, template_source: str) -> None:
        self._tokenizer = tokenizer
        added = {
            id: token for id, token in tokenizer.added_tokens_decoder.items() if _is_control(token.content)
        }
        self._added_ids = frozenset(added)
        structure = (template_source, *TAGS)
        typed = {
            token.content: id
            for id, token in added.items()
            if token.special or any(token.content in text for text in structure)
        }
        special = {token.content for token in added.values() if token.special}
        self._control_ids = frozenset(typed.values())
        self._typed = _any_of(typed)
        self._spoken = _any_of(special - _THINK_TAGS)
        anchors = [(text, self._encode(text)) for text in ("\n", ".", "0")]
        pads = [self._encode(text + "x") != ids + self._encode("x") for text, ids in anchors]
        self._anchors = anchors if all(pads) else []

    def is_control(self, id: int) -> bool:
        """True for a token that the tokenizer matches whole, such as an end-of-turn token."""
        return id in self._added_ids

    def guard(self, texts: Iterable[str]) -> Guard:
        """A guard whose marks occur in none of the texts; it does nothing if none holds a control token.

        Raises:
            TemplateError: the texts use all of the marks.
        """
        texts = list(texts)
        marks = None
        if any(self._typed.search(text) for text in texts):
            free = [
                mark for mark in _MARKS if not any(mark in text or _escaped(mark) in text for text in texts)
            ]
            if len(free) < 2:
                raise TemplateError(
                    "a conversation that uses all of Unicode's noncharacters cannot be rendered"
                )
            marks = Marks(free[0], free[1])
        return self.guard_with(marks)

    def guard_with(self, marks: Marks | None) -> Guard:
        """A guard with known marks."""
        return Guard(marks, self._typed, self._spoken)

    def encode(self, text: str, marks: Marks | None = None, *, inside: bool = False) -> tuple[int, ...]:
        """The ids of rendered text.

        Args:
            text: what a template made, with typed control tokens between marks.
            marks: the marks, if any.
            inside: True if the text continues a sequence (no prefix space at its start).

        Raises:
            TemplateError: the tokenizer refuses the text.
        """
        if marks is None:
            return tuple(self._inside(text) if inside else self._encode(text))
        start, end = (f"(?:{mark}|{re.escape(_escaped(mark))})" for mark in (marks.start, marks.end))
        ids: list[int] = []
        # Odd pieces are typed control tokens. A template's string methods may leave a lone mark: dropped.
        for number, piece in enumerate(re.split(f"{start}({self._typed.pattern}){end}|{start}|{end}", text)):
            if not piece:
                continue
            if number % 2:
                ids += self._as_text(piece)
            elif ids or inside:
                ids += self._inside(piece)
            else:
                ids += self._encode(piece)
        return tuple(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, control tokens included.

        Raises:
            TemplateError: the tokenizer has no text for one of them.
        """
        try:
            text = self._tokenizer.decode(
                list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        except Exception as error:  # a tokenizer is foreign code: it may raise anything
            raise TemplateError(
                f"the tokenizer cannot decode {len(ids)} ids ({type(error).__name__}: {error}): "
                "is it this model's tokenizer?"
            ) from error
        return str(text)

    def _inside(self, text: str, *, split: bool = False) -> list[int]:
        """Ids of text in the middle of a sequence: some tokenizers put a space before what comes first."""
        options: dict[str, Any] = {"split_special_tokens": True} if split else {}
        for anchor, anchor_ids in self._anchors:
            ids = self._encode(anchor + text, **options)
            if ids[: len(anchor_ids)] == anchor_ids:
                return ids[len(anchor_ids) :]
        return self._encode(text, **options)

    def _encode(self, text: str, **options: Any) -> list[int]:
        try:
            return self._tokenizer.encode(text, add_special_tokens=False, **options)
        except Exception as error:  # a tokenizer is foreign code: it may raise anything
            lone = _SURROGATE.search(text)
            why = f"{type(error).__name__}: {error}" if lone is None else f"a lone surrogate, {lone[0]!a}"
            raise TemplateError(
                f"the tokenizer cannot encode this text ({why}): messages must be valid Unicode"
            ) from error

    def _as_text(self, text: str) -> list[int]:
        """Ids of a typed control token as ordinary text.

        `split_special_tokens` does it for special tokens; an added token that is not special is cut until it
        does not match any more.
        """
        ids = self._inside(text, split=True)
        if len(text) == 1 or self._control_ids.isdisjoint(ids):
            return ids
        return self._as_text(text[:1]) + self._as_text(text[1:])


def _each_string(value: Any, change: Callable[[str], str], *, keys: bool) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if keys else key: _each_string(item, change, keys=keys) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_each_string(item, change, keys=keys) for item in value]
    return value


def _is_control(content: str) -> bool:
    # Some tokenizers add single letters and runs of white space, which everybody may write.
    return len(content) > 1 and not content.isspace()


def _any_of(tokens: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else _NOTHING


def _escaped(mark: str) -> str:
    return json.dumps(mark)[1:-1]
