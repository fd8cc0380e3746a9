import hashlib
from collections import Counter

import pytest

from turngym.envs.builtin.search.dice import Dice
from turngym.envs.builtin.search.library import library
from turngym.envs.builtin.search.schema import RELATIONS, relations_of
from turngym.envs.builtin.search.world import make_world
from turngym.envs.builtin.search.writing import sentences_of, stated, write_documents


def facts_in(document):
    """Every fact that a document states, of whatever kind its subject is."""
    return {
        (document.title, name): value
        for name, relation in RELATIONS.items()
        for sentence in sentences_of(document.text)
        if (value := relation.read(sentence)) is not None
    }


@pytest.mark.parametrize("seed", range(3))
def test_documents_state_the_facts_of_the_world_each_once_and_nothing_else(seed):
    world = make_world(seed, 400)
    documents = write_documents(world, seed, 400)
    read = [fact for document in documents for fact in facts_in(document).items()]
    facts = {
        (thing, relation): value for thing, its in world.facts.items() for relation, value in its.items()
    }
    assert dict(read) == facts
    assert len(read) == len(facts)
    sentences = [s for d in documents if d.title in world.kinds for s in d.sentences]
    assert len(sentences) > len(facts) + len(world.kinds)  # there is padding, too


def test_every_relation_reads_back_its_own_sentences_and_no_other_relation_does():
    dice = Dice.seeded(5)
    for relation in RELATIONS.values():
        value = {"year": 1987, "count": 12_480, "word": "glass bells"}.get(relation.object, "New Quorn Mills")
        for template in relation.says:
            sentence = relation.sentence(template, dice.choice(("Ker Ost", "She", "The town")), value)
            assert [name for name in RELATIONS if stated([sentence], name) is not None] == [relation.name]
            assert stated([sentence], relation.name) == value


def test_facts_fit_together():
    world = make_world(0, 1000)
    kinds = Counter(world.kinds.values())
    assert kinds == {"person": 360, "work": 200, "company": 150, "town": 110, "region": 20, "lake": 20}
    for thing, its in world.facts.items():
        for relation, value in its.items():
            wanted = RELATIONS[relation]
            assert wanted.subject == world.kinds[thing]
            assert world.kinds.get(value) == (wanted.object if wanted.is_thing else None)
            assert value != thing
            assert thing in world.subjects[relation, value]
        year = {name: value for name, value in its.items() if isinstance(value, int)}
        if teacher := its.get("teacher"):
            assert year["birth year"] >= world.facts[teacher]["birth year"] + 12
        if founder := its.get("founder"):
            assert year["founding"] >= world.facts[founder]["birth year"] + 20
        if author := its.get("author"):
            assert year["appearance"] >= world.facts[author]["birth year"] + 20
        if publisher := its.get("publisher"):
            assert year["appearance"] >= world.facts[publisher]["founding"]
        if capital := its.get("capital"):
            assert world.facts[capital]["region"] == thing


def test_every_kind_has_relations_and_every_comparison_its_words():
    for kind in ("person", "company", "work", "town", "region", "lake"):
        assert len(relations_of(kind)) >= 2
    for relation in RELATIONS.values():
        assert "{x}" in relation.forward
        assert "{x}" in relation.ask
        assert relation.backward is None or "{x}" in relation.backward
        assert relation.comparison is None or relation.is_number


def test_a_world_is_the_same_everywhere():
    documents = library(0, 1000).documents
    assert len(documents) == 1000
    assert len({d.title for d in documents}) == len({d.id for d in documents}) == 1000
    assert [d.id for d in documents[:2]] == ["d0000", "d0001"]
    text = "\n".join(f"{d.id}|{d.title}|{d.text}" for d in documents)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "4a0339dd954b2983"
    assert library(1, 1000).documents[0] != documents[0]


def test_ids_and_their_order_do_not_tell_what_a_document_is_about():
    shelf = library(0, 1000)
    first_half = Counter(shelf.world.kinds.get(d.title) for d in shelf.documents[:500])
    for kind, count in Counter(shelf.world.kinds.get(d.title) for d in shelf.documents).items():
        assert 0.2 < first_half[kind] / count < 0.8
