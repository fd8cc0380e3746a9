"""Answer pairs judged by hand: none that differ may be taken for equal, and few that are equal for different.

The labels follow the conventions of docs/envs/math.md (percent, units, rounded decimals, rows of answers).
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from turngym.envs.verify import averify

PAIRS = [
    json.loads(line)
    for line in (Path(__file__).parent / "pairs.jsonl").read_text(encoding="utf-8").split("\n")
    if line
]
MOST_MISSED = 0.02


def test_the_pairs_are_many_of_every_kind_and_each_is_there_once():
    kinds = Counter(pair["kind"] for pair in PAIRS)
    assert len(PAIRS) >= 300
    assert len(kinds) >= 20
    assert len({(pair["reference"], pair["reply"]) for pair in PAIRS}) == len(PAIRS)
    assert {pair["equal"] for pair in PAIRS} == {True, False}


@pytest.mark.parametrize("wrap", [False, True], ids=["as-given", "boxed"])
async def test_no_false_positive_and_few_false_negatives(wrap):
    """As they are; and in a box, for those that are an answer alone."""
    pairs = [pair for pair in PAIRS if not wrap or is_bare(pair)]
    wrong, missed = [], []
    for pair in pairs:
        reply = f"\\boxed{{{pair['reply']}}}" if wrap else pair["reply"]
        said = await averify(pair["reference"], reply)
        if said and not pair["equal"]:
            wrong.append((pair["reference"], reply))
        if not said and pair["equal"]:
            missed.append((pair["reference"], reply))
    assert wrong == []
    assert len(missed) < MOST_MISSED * sum(pair["equal"] for pair in pairs), missed


def is_bare(pair) -> bool:
    """Whether a reply is a formula without announcements, that a box could hold."""
    reply = pair["reply"]
    return (
        pair["kind"] not in ("boxed", "text around", "nasty", "word")
        and reply.count("{") == reply.count("}")
        and not any(sign in reply for sign in ("boxed", "####", "nswer", "\n", "$", ". "))
    )
