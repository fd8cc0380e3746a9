"""Which text of a reply is its final answer: one rule, and no search for a value anywhere else.

1. What comes before the end of thinking (`</think>`) is no part of the reply.
2. If there is a `\\boxed{…}`, the last one holds the answer. If its brace is not closed, there is no answer.
3. Else, if lines begin with `####` and a value (GSM8K's form), the last of them holds it.
4. Else, if it says "the answer is …" or "answer: …", the last of these holds it, to the end of its sentence.
5. Else, if the whole reply is one sentence, it is the answer, or states it.
6. Else, the last sentence does, if it is a plain statement with one value ("So there are 42 apples.").

Announcements of the same kind with nothing between them but "and", "or", "the answer is" and the like are one answer
together: all of them must be right, or they must be right as a list. So `\\boxed{1} or \\boxed{2}` is no way to give
two answers, while a value that was boxed on the way and then left behind does no harm.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from turngym.envs.verify.tokens import closing


class Announcement(NamedTuple):
    """An answer as it was announced, and where."""

    text: str
    start: int
    end: int


_BOX: Final = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])\s*")
_HASHES: Final = re.compile(r"^[ \t]*####[ \t]*(?=[-+−$€£\d.\\({\[])(.*)$", re.MULTILINE)
_PHRASE: Final = re.compile(
    r"\banswers?\b[\"'*_`]*\s*(?:is\s*:|are\s*:|is\b|are\b|:|=|(?=\$|\\\(|\\\[))\s*", re.IGNORECASE
)
_CONNECTIVE: Final = re.compile(
    r"(?:[\s,;:.!=*_$\\()\[\]{}&/~\"'`#|-]|\b(?:and|or|either|the|final|my|correct|answers?|is|are|so|again|also|maybe|"
    r"alternatively|possibly|perhaps|solutions?|it|its|could|be|[a-zA-Z]|boxed|fbox|text|quad|qquad|therefore|thus|hence"
    r")\b)*",
    re.IGNORECASE,
)
_SENTENCE_END: Final = re.compile(r"[.?](?=[\"'*_`)]*(?:\s|$))|!(?=[\"'*_`)]*(?:\s*$|\s+[A-Z]))|\n")
_STATEMENT: Final = re.compile(
    r"(?P<lead>(?:[A-Za-z](?:[A-Za-z',\s-]|\$[A-Za-z(),\s\\_]{1,20}\$){0,120}?)?\b(?:is|are|was|were|be|equals?|gets?|"
    r"obtain|have|has|find|gives?|makes?|yields?|costs?|contains?|takes?|needs?|pays?|earns?|spends?|left with|"
    r"total of|by|so|thus|therefore|hence)"
    r"(?:\s+(?:that|exactly|simply|just|equal to))?\s*:?,?\s+)(?P<value>[*_`]*(?:[-+−$€£\d.\\(\[{]|[a-zA-Z]\s*=).*)",
    re.DOTALL | re.IGNORECASE,
)
_FORMULA: Final = re.compile(r"\$\$?([^$]+)\$\$?|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_PLAIN_WORDS: Final = re.compile(r"[A-Za-z',:\s.-]*")
_ONLY_LEAD: Final = re.compile(r"(?:[\s*_`:]|\b(?:the|my|our|final|correct)\b)*", re.IGNORECASE)
_NOT_PLAIN: Final = re.compile(
    r"\b(?:not|no|never|nor|neither|either|or|if|may|maybe|might|could|would|should|cannot|can|perhaps|possibly|"
    r"probably|likely|unless|except|wrong|incorrect|false|less|more|fewer|greater|least|most|about|around|approximately|"
    r"roughly|nearly|almost|between|chance|guess|suppose|assume|whether|say|says)\b|n't\b",
    re.IGNORECASE,
)
_MOST_REPLY: Final = 200_000
_MOST_SENTENCE: Final = 2_000
_AROUND: Final = " \t\r\n\"'`*_"
_STOP: Final = re.compile(r"(?<![.\\])\.$|(?<!\\)[,;]$|(?<=[A-Za-z]{3})!$")


def final_answers(reply: str) -> tuple[str, ...]:
    """The texts that are announced as final, in order; none if the reply commits itself to nothing."""
    text = _spoken(reply)
    boxes = _boxes(text)
    if boxes is not None:
        return tuple(box.text for box in _last_together(text, boxes))
    hashes = [Announcement(m[1], m.start(1), m.end(1)) for m in _HASHES.finditer(text)]
    if hashes:
        return _trimmed(_last_together(text, hashes))
    phrases = _phrases(text)
    if phrases:
        return _trimmed(_last_together(text, phrases))
    sentences = [sentence for sentence in _sentences(text.strip()) if sentence.strip()]
    if len(sentences) == 1:
        return (_statement(sentences[0]) or tidy(sentences[0]),)
    return _closing_statement(sentences)


def reference_answer(reference: str) -> str:
    """The answer in a reference: what its last box holds, or what follows `####`, or all of it."""
    boxes = _boxes(reference)
    if boxes:
        return ", ".join(dict.fromkeys(box.text for box in _last_together(reference, boxes)))
    hashes = reference.rpartition("####")
    return tidy(hashes[2] if hashes[1] else reference)


def _spoken(reply: str) -> str:
    text = reply[-_MOST_REPLY:].rpartition("</think>")[2]
    return text.partition("<think>")[0]


def _boxes(text: str) -> list[Announcement] | None:
    """The outermost boxes; None if there are none, and an empty list if the last one is broken."""
    found: list[Announcement] = []
    place = 0
    is_any = False
    while (match := _BOX.search(text, place)) is not None:
        is_any = True
        start = match.end()
        if text[start : start + 1] == "{":
            end = closing(text, start)
            if end is None:
                return []
            found.append(Announcement(text[start + 1 : end], match.start(), end + 1))
            place = end + 1
        else:
            bare = re.compile(r"[^\s$\\]+|\\[A-Za-z]+").match(text, start)
            if bare is None:
                return []
            found.append(Announcement(bare[0].rstrip(".,;"), match.start(), bare.end()))
            place = bare.end()
    return found if is_any else None


def _phrases(text: str) -> list[Announcement]:
    markers = list(_PHRASE.finditer(text))
    found = []
    for number, marker in enumerate(markers):
        limit = markers[number + 1].start() if number + 1 < len(markers) else len(text)
        start = marker.end()
        end = _sentence_end(text, start, limit)
        while start < end and not text[start:end].strip(_AROUND + "$,;"):  # on the next line, perhaps
            start, end = end, _sentence_end(text, end + 1, limit) if end < limit else limit
            if start >= limit:
                break
        content = text[start:end]
        if not _ONLY_LEAD.fullmatch(content):  # "Final answer: the answer is …" announces it once
            found.append(Announcement(_stated(content), start, end))
    return found


def _stated(content: str) -> str:
    """What is announced; of a sentence, the value that it states."""
    words = content.strip()
    return (_statement(words) if words[:1].isalpha() and " " in words else None) or content


def _sentence_end(text: str, start: int, limit: int) -> int:
    match = _SENTENCE_END.search(text, start, limit)
    while match is not None and match[0] != "\n" and _is_abbreviation(text, match.start()):
        match = _SENTENCE_END.search(text, match.end(), limit)
    end = limit if match is None else match.start()
    # A question mark stays: what is asked is not said.
    return end + 1 if match is not None and match[0] == "?" else end


def _is_abbreviation(text: str, stop: int) -> bool:
    return text[max(0, stop - 3) : stop].endswith((" in", " ft", " vs", " cm", " sq"))


def _last_together(text: str, found: Sequence[Announcement]) -> list[Announcement]:
    """The last announcement, and those before it from which only connectives part it."""
    kept = [*found[-1:]]
    for one, following in zip(found[-2::-1], found[:0:-1], strict=True):
        if not _CONNECTIVE.fullmatch(text, one.end, following.start):
            break
        kept.append(one)
    return kept[::-1]


def _trimmed(found: Sequence[Announcement]) -> tuple[str, ...]:
    return tuple(tidy(one.text) for one in found)


def tidy(text: str) -> str:
    """Without quotation marks and emphasis around it, and without the stop of its sentence."""
    text = text.strip(_AROUND)
    return _STOP.sub("", text).strip(_AROUND)


def _statement(sentence: str) -> str | None:
    """The value of a plain statement: its only formula, or what it ends with."""
    sentence = sentence.strip()
    if len(sentence) > _MOST_SENTENCE or sentence.endswith("?"):
        return None
    formulas = list(_FORMULA.finditer(sentence))
    if len(formulas) == 1:
        (formula,) = formulas
        around = f"{sentence[: formula.start()]} {sentence[formula.end() :]}"
        if _PLAIN_WORDS.fullmatch(around) and around.strip(" ."):
            return None if _NOT_PLAIN.search(around) else tidy(next(filter(None, formula.groups())))
    match = _STATEMENT.fullmatch(sentence)
    if match is None or _NOT_PLAIN.search(match["lead"]):
        return None
    return tidy(match["value"].strip().rstrip("!"))


def _closing_statement(sentences: Sequence[str]) -> tuple[str, ...]:
    """The value of the last sentence; two sentences in a row that begin alike take each other back."""
    if not sentences:
        return ()
    value = _statement(sentences[-1])
    if value is None:
        return ()
    before, lead = (_STATEMENT.fullmatch(sentence.strip()[:_MOST_SENTENCE]) for sentence in sentences[-2:])
    if before and lead and before["lead"].lower().split() == lead["lead"].lower().split():
        return (tidy(before["value"]), value)
    return (value,)


def _sentences(text: str) -> list[str]:
    found, start = [], 0
    while start < len(text):
        end = _sentence_end(text, start, len(text))
        found.append(text[start : end + 1])
        start = end + 1
    return found
