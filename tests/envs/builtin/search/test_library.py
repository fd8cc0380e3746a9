import pickle
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turngym.envs.builtin.search import library as module
from turngym.envs.builtin.search.library import MOST_WORDS, library, wanted_words
from turngym.envs.errors import InfrastructureError

SHELF = library(0, 1000)


@settings(max_examples=300, deadline=None)
@given(st.text() | st.text(alphabet="\"*^():+-{}\0'ab ANDORNET"), st.integers(1, 20))
def test_any_text_is_a_query(query, limit):
    assert len(SHELF.search(query, limit)) <= limit


def test_operators_are_only_words():
    odd = (
        '"', "AND", "a OR", "NOT", "NEAR(", "NEAR(town, 3", "title:town", "tow*", "^town", "-town", "(town", "{a b}:c",
        "town'; DROP TABLE page; --", "\x00town", "\ud800", "x" * 100_000, "town " * 50_000, "ﬀ", "١٢٣",
        "page MATCH", "?", "%s",
    )  # fmt: skip
    for query in odd:
        assert len(SHELF.search(query, 5)) <= 5


def test_operators_do_nothing():
    name = next(name for name, kind in SHELF.world.kinds.items() if kind == "person")
    first, last = name.split()
    found = [hit.document.title for hit in SHELF.search(f"{first} {last}", 5)]
    for query in (f'"{first}" AND "{last}"', f"{first}* -{last}", f"title:{first} NOT {last}"):
        words = query.replace("title:", "").replace("AND", "").replace("NOT", "")
        assert [hit.document.title for hit in SHELF.search(words, 5)] == found
        assert name in [hit.document.title for hit in SHELF.search(query, 5)]


def test_everything_is_found_by_its_name():
    for title in SHELF.by_title:
        assert SHELF.search(f" {title.upper()}? ", 1)[0].document.title == title


def test_a_fact_is_found_by_what_it_says_and_shown():
    sought = next(d for d in SHELF.documents if SHELF.world.kinds.get(d.title) == "company")
    fact = next(s for s in sought.sentences if SHELF.world.facts[sought.title]["founder"] in s)
    hits = SHELF.search(fact, 5)
    assert [hit.sentence for hit in hits if hit.document is sought] == [fact]


def test_common_words_are_left_out_and_long_queries_cut():
    assert wanted_words("Who is the founder of THE Mill?") == ["founder", "mill"]
    assert wanted_words("who is it") == ["who", "is", "it"]
    assert wanted_words("a1_b-ü a1") == ["a1", "b", "ü"]
    assert len(wanted_words(" ".join(f"w{n}" for n in range(1000)))) == MOST_WORDS
    assert SHELF.search("?!", 5) == []


def test_a_rare_word_must_be_there_and_a_frequent_one_may_be():
    lake = next(name for name, kind in SHELF.world.kinds.items() if kind == "lake")
    word = lake.split()[1].lower()
    hits = SHELF.search(f"company {lake}", 20)
    assert hits[0].document.title == lake
    assert all(word in f"{hit.document.title} {hit.document.text}".lower() for hit in hits)
    assert SHELF.search("company", 20)
    assert SHELF.search("qqqq company", 20)  # a word that occurs nowhere rules nothing out


def test_threads_share_it():
    queries = [document.title for document in SHELF.documents[:100]]
    alone = [SHELF.search(query, 5) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(lambda _: [SHELF.search(query, 5) for query in queries], range(8)):
            assert together == alone


def test_a_forked_process_makes_its_own_index():
    script = """
        import os
        from turngym.envs.builtin.search.library import library
        shelf = library(0, 200)
        query = shelf.documents[7].title
        before, index = shelf.search(query, 5), shelf._index()
        child = os.fork()
        if child == 0:
            os._exit(0 if shelf.search(query, 5) == before and shelf._index() is not index else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert shelf.search(query, 5) == before and shelf._index() is index
        print("both")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("both\n", "")


def test_it_is_made_once_and_found_again_after_pickling():
    assert library(0, 1000) is SHELF
    assert pickle.loads(pickle.dumps(SHELF)) is SHELF


def test_without_fts5_it_is_the_machine_that_fails(monkeypatch):
    class Lame:
        def execute(self, statement):
            raise module.sqlite3.OperationalError("no such module: fts5")

    monkeypatch.setattr(module.sqlite3, "connect", lambda *_, **__: Lame())
    with pytest.raises(InfrastructureError, match="FTS5"):
        module.Library(3, 200).search("town", 5)
