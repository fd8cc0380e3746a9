"""The evidence of a question is necessary and sufficient: shown by solving it in the graph of what the documents say,
with a solver that shares nothing with the generator."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.library import library
from turngym.envs.builtin.search.questions import Asker, Branch, Hop, Query, compared, in_words
from turngym.envs.builtin.search.schema import RELATIONS
from turngym.envs.builtin.search.world import World
from turngym.envs.builtin.search.writing import stated

SHELF = library(0, 1000)
KINDS_AND_HOPS = [("bridge", n) for n in (1, 2, 3, 4)] + [("comparison", n) for n in (2, 3, 4)]


def facts_of(documents):
    """Triples that documents state."""
    return {
        (document.title, name, value)
        for document in documents
        for name in RELATIONS
        if (value := stated(document.sentences, name)) is not None
    }


def indexed(triples):
    by_subject, by_value = {}, {}
    for subject, relation, value in triples:
        by_subject.setdefault((subject, relation), set()).add(value)
        by_value.setdefault((relation, value), set()).add(subject)
    return by_subject, by_value


FACTS = {document.title: facts_of([document]) for document in SHELF.documents}
EVERYTHING = indexed(fact for facts in FACTS.values() for fact in facts)


def ends(branch, facts):
    """Everything that a branch can lead to: pairs of the last thing and the last value."""
    by_subject, by_value = facts
    reached = {(None, branch.start)}
    for hop in branch.hops:
        reached = {
            (here, value)
            for _, here in reached
            for subject in ({here} if hop.backward is None else by_value.get((hop.backward, here), ()))
            for value in ({subject} if hop.forward is None else by_subject.get((subject, hop.forward), ()))
        }
    return reached


def solve(query, facts):
    """All answers that facts allow; none where a branch leads nowhere."""
    found = [ends(branch, facts) for branch in query.branches]
    if query.form == "value":
        return {value for _, value in found[0]}
    if any(len(pairs) != 1 for pairs in found):
        return set()
    pairs = [next(iter(pairs)) for pairs in found]
    numbers = [number for _, number in pairs]
    if query.form == "apart":
        return {abs(numbers[0] - numbers[1])}
    best = min(numbers) if query.form == "least" else max(numbers)
    return {thing for thing, number in pairs if number == best}


@pytest.mark.parametrize(("kind", "hops"), KINDS_AND_HOPS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_the_answer_is_unique_and_every_piece_of_evidence_is_needed_and_all_together_are_enough(
    kind, hops, seed
):
    question = SHELF.asker.ask(Dice.seeded(seed), kind, hops)
    query, evidence = question.query, question.evidence
    assert (question.kind, query.hops, len(evidence), len(set(evidence))) == (kind, hops, hops, hops)
    assert solve(query, EVERYTHING) == {question.answer}
    assert solve(query, indexed(fact for title in evidence for fact in FACTS[title])) == {question.answer}
    for missing in evidence:
        rest = indexed(fact for title, facts in FACTS.items() if title != missing for fact in facts)
        assert solve(query, rest) == set()


@pytest.mark.parametrize(("kind", "hops"), KINDS_AND_HOPS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**40))
def test_a_question_names_its_starts_and_gives_nothing_else_away(kind, hops, seed):
    question = SHELF.asker.ask(Dice.seeded(seed), kind, hops)
    assert Query.of(question.query.data()) == question.query
    assert question.text == in_words(question.query)
    assert question.text.endswith("?")
    assert "{" not in question.text
    starts = [branch.start for branch in question.query.branches]
    assert len(set(starts)) == len(starts)
    assert all(start in question.text for start in starts)
    if not (kind == "comparison" and question.answer in starts):
        assert question.answer not in starts


def test_all_forms_and_ways_occur():
    dice = Dice.seeded(0)
    asked = [SHELF.asker.ask(dice, kind, hops).query for kind, hops in KINDS_AND_HOPS for _ in range(60)]
    assert {query.form for query in asked} == {"value", "least", "greatest", "apart"}
    hops = {hop for query in asked for branch in query.branches for hop in branch.hops}
    assert {(hop.backward is None, hop.forward is None) for hop in hops} == {
        (True, False),
        (False, True),
        (False, False),
    }
    assert {hop.backward for hop in hops} >= {"founder", "author", "mayor", "teacher", "publisher", "owner"}
    assert {len(query.branches) for query in asked} == {1, 2, 3, 4}


def test_the_right_answer_of_a_comparison_may_stand_in_any_place():
    dice = Dice.seeded(0)
    asked = [SHELF.asker.ask(dice, "comparison", 3) for _ in range(300)]
    places = [[branch.start for branch in q.query.branches].index(q.answer) for q in asked]
    assert all(70 < places.count(place) < 130 for place in range(3))


def test_a_small_world_by_hand():
    world = World()
    for name, kind in (("Ada", "person"), ("Bo", "person"), ("Cog Works", "company"), ("Dell", "town")):
        world.add(name, kind, "It")
    world.state("Cog Works", "founder", "Ada")
    world.state("Cog Works", "seat", "Dell")
    world.state("Dell", "mayor", "Bo")
    moves = {(m.hop, m.about, m.value) for m in Asker(world).moves("Ada")}
    assert moves == {
        (Hop("founder", None), "Cog Works", "Cog Works"),
        (Hop("founder", "seat"), "Cog Works", "Dell"),
    }
    query = Query("value", (Branch("Ada", (Hop("founder", "seat"), Hop(None, "mayor"))),))
    assert in_words(query) == "Who is the mayor of the seat of the company founded by Ada?"
    asked = [Asker(world).ask(Dice.seeded(seed), "bridge", 2) for seed in range(30)]
    assert {(q.answer, q.evidence) for q in asked if q.query == query} == {("Bo", ("Cog Works", "Dell"))}
    world.add("Elm Press", "company", "It")
    world.state("Elm Press", "founder", "Ada")  # now "the company founded by Ada" names nothing
    assert Asker(world).moves("Ada") == []
    with pytest.raises(RuntimeError, match="make it larger"):
        Asker(world).ask(Dice.seeded(0), "bridge", 4)


def test_comparisons_by_hand():
    numbers = {"a": 3, "b": 10}
    assert [compared(form, numbers) for form in ("least", "greatest", "apart")] == ["a", "b", 7]
