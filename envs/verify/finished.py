"""Is a right answer worked out, or does it only say the question again?

"17 · 23" has the value 391, and is no answer to "What is 17 · 23?". So where the reference is made of plain numbers,
the answer must be too (an integer may not be a quotient either); and what stands in the question word for word is no
answer, unless the reference is that very text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from turngym.envs.verify.answers import (
    Answer,
    Equals,
    Group,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Region,
    Relation,
    SetOf,
    Several,
)
from turngym.envs.verify.decide import answers_of
from turngym.envs.verify.errors import Unreadable
from turngym.envs.verify.final import reference_answer
from turngym.envs.verify.reading import read
from turngym.envs.verify.trees import MINUS_ONE, Tree, holds
from turngym.envs.verify.values import exact

_LAYOUT: Final = re.compile(r"\\(?:left|right|displaystyle|,|;|:|!|quad)|[${}]")
_SPELLINGS: Final = (
    ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"), ("\\cdot", "*"), ("\\times", "*"), ("×", "*"), ("·", "*"), ("−", "-"),
    ("\\div", "/"), ("÷", "/"), ("**", "^"),
)  # fmt: skip


def is_worked_out(reference: str, reply: str, question: str) -> bool:
    """Whether the final answer of a reply, which is right, is more than the question."""
    wanted = reference_answer(reference)
    texts = answers_of(reply)
    if any(_restates(text, wanted, question) for text in texts):
        return False
    try:
        trees = list(_trees(read(wanted)))
        found = [tree for text in texts for tree in _trees(read(text))]
    except Unreadable:
        return True
    if not trees or not all(map(_is_numeral, trees)):
        return True
    is_whole = all(_is_whole(tree) for tree in trees)
    return all(_is_literal(tree) if is_whole else _is_numeral(tree) for tree in found)


def _restates(text: str, wanted: str, question: str) -> bool:
    """Whether a formula with a sign in it stands in the question, and the reference is another."""
    said = _spelling(text)
    if said == _spelling(wanted) or not re.search(r"[-+*/^=<>≤≥\\(.]", said.lstrip("-")):
        return False
    pattern = r"\s*".join(map(re.escape, said))
    before = "" if said[0] == "\\" else r"(?<![\w.])"
    return re.search(rf"{before}{pattern}(?!\w)", _common(question)) is not None


def _spelling(text: str) -> str:
    return re.sub(r"\s", "", _common(text)).rstrip(".")


def _common(text: str) -> str:
    """One spelling of what can be spelled in several ways, without layout."""
    for spelling, common in _SPELLINGS:
        text = text.replace(spelling, common)
    return _LAYOUT.sub("", text)


def _trees(answer: Answer) -> Iterator[Tree]:
    """The formulas in an answer; of sides that are said to be equal, the last."""
    if isinstance(answer, Quantity):
        yield answer.tree
    elif isinstance(answer, Several | SetOf | Group | Ratio):
        for item in answer.items:
            yield from _trees(item)
    elif isinstance(answer, Named):
        yield from _trees(answer.value)
    elif isinstance(answer, Equals):
        yield from _trees(answer.sides[-1])
    elif isinstance(answer, Region):
        for span in answer.spans:
            yield from (end for end in (span.low, span.high) if not holds(end, "oo"))
    elif isinstance(answer, Matrix):
        for row in answer.rows:
            for cell in row:
                yield from _trees(cell)
    elif isinstance(answer, Relation):
        yield from answer.sides


def _unsigned(tree: Tree) -> Tree:
    return tree[1][1] if tree[0] == "mul" and len(tree[1]) == 2 and tree[1][0] == MINUS_ONE else tree


def _is_literal(tree: Tree) -> bool:
    """An integer, a decimal, or one with a power of ten."""
    tree = _unsigned(tree)
    if tree[0] == "mul" and len(tree[1]) == 2 and tree[1][0][0] == "num":
        tree = tree[1][1]
        return bool(tree[0] == "pow" and tree[1] == ("num", Fraction(10)) and _is_whole(tree[2]))
    return bool(
        tree[0] == "num" or (tree[0] == "pow" and tree[1] == ("num", Fraction(10)) and _is_whole(tree[2]))
    )


def _is_numeral(tree: Tree) -> bool:
    """A literal, or a quotient of two."""
    tree = _unsigned(tree)
    if tree[0] == "mul" and len(tree[1]) == 2 and tree[1][1][0] == "pow" and tree[1][1][2] == MINUS_ONE:
        return _is_literal(tree[1][0]) and _is_literal(tree[1][1][1])
    return _is_literal(tree)


def _is_whole(tree: Tree) -> bool:
    value = exact(tree)
    return value is not None and value.denominator == 1
