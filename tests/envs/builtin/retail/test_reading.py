from __future__ import annotations

from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngym.envs.builtin.retail import reading
from turngym.envs.builtin.retail.customer import TOPICS
from turngym.envs.builtin.retail.reading import LONGEST, Cues, Said, amounts, codes


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("You get $45.90 back.", {4590}),
        ("**$45.9**, as promised", {4590}),
        ("$ 45", {4500}),
        ("$1,045.90!", {104590}),
        ("1,045.90 USD or 12 dollars", {104590, 1200}),
        ("USD 7.5", {750}),
        ("It is 45.90.", {4590}),
        ("45 days, 15%, 3 items, 2025-03-04, W123456, 10:30", set()),
        ("15.00%", set()),
        ("21045.90", {2104590}),
        ("45.901 and 1.2.34 and v45.90x", set()),
        ("$45.90-$46.10", {4590, 4610}),
        ("$1.00 $1.00 1.00 $2 $3 $4", {100, 200, 300, 400}),
        ("$1 $2 $3 $4 $5", set()),
        ("$٤٥.٩٠", set()),
        ("$" + "9" * 30, set()),
        ("", set()),
    ],
)
def test_amounts_are_read_by_value_and_as_whole_tokens(text, found):
    assert amounts(text) == found


@given(st.integers(0, 10**8))
def test_every_amount_is_found_as_people_write_it(cents):
    whole, part = divmod(cents, 100)
    for written in (
        f"${whole}.{part:02}",
        f"${whole:,}.{part:02}",
        f"{whole}.{part:02}",
        f"{whole}.{part:02} USD",
    ):
        assert amounts(f"You get {written}, soon.") == {cents}


def test_codes_are_whole_words_in_capitals():
    assert codes("TOO-LATE. (FINAL-SALE) `NOT-YOURS`") == {"TOO-LATE", "FINAL-SALE", "NOT-YOURS"}
    assert (
        codes("too-late TOO LATE TOO_LATE X-TOO-LATE TOO-LATE-X TOO-LATER aTOO-LATE TOO-LATE2 E-MAIL")
        == frozenset()
    )


def test_words_are_whole_and_without_what_is_around_them():
    said = Said.of("**W123456**, (a.b_c@d-e.com)! #12345. W1234567 order's")
    assert {"w123456", "a.b_c@d-e.com", "12345", "w1234567", "order"} <= said.words
    assert said.plain.startswith(" w123456 a.b_c@d-e.com 12345 ")


def test_cues_are_whole_words_and_phrases():
    cues = Cues.of("used, wrong with, doesn't match")
    for text in ("Is it used?", "what is wrong\nwith it", "It doesn’t match.", "It DOESN'T MATCH"):
        assert cues.found_in(Said.of(text))
    for text in ("refused", "wrong without", "It does match", ""):
        assert not cues.found_in(Said.of(text))


@pytest.mark.parametrize(
    ("text", "consent", "asks", "reports"),
    [
        ("Shall I cancel it?", True, True, False),
        ("I will cancel it. Please confirm.", True, False, False),
        ("Reply yes and I will do it.", True, False, False),
        ("Should it be blue?", False, True, False),
        ("It has been cancelled. Is there anything else I can do?", False, False, True),
        ("Done! Do you have any other questions?", False, False, True),
        ("Your refund was issued. Which card was it?", False, True, False),
        ("One moment please.", False, False, False),
        ("I refused it.", False, False, False),
        ("", False, False, False),
    ],
)
def test_what_a_message_is(text, consent, asks, reports):
    said = Said.of(text)
    assert (reading.asks_for_consent(said), reading.asks(said), reading.reports(said)) == (
        consent,
        asks,
        reports,
    )


def test_yes_comes_first():
    for text in ("Yes, please.", "  yes", "Sure!", "OK", "Go ahead", "**Yes**", "That's right."):
        assert reading.says_yes(Said.of(text))
    for text in ("No, yes", "Yesterday", "Okra", "Well, yes", "", "Wait, please leave that."):
        assert not reading.says_yes(Said.of(text))


@pytest.mark.parametrize(
    "text",
    ["a" * 10**6, "a." * 10**5, "A-" * 10**5, "1,000" * 10**5, "$1.0" * 10**5, "?" * 10**5, "exchange " * 10**5,
     "a....." * 10**5, "$ " * 10**5, "İ" * 10**5, ",000" * 10**5, "a?" * 10**5, "\ud800" * 10],
)  # fmt: skip
def test_nothing_that_can_be_written_takes_long(text):
    began = perf_counter()
    said = Said.of(text)
    assert len(said.text) <= LONGEST
    for read in (reading.asks_for_consent, reading.asks, reading.reports, reading.says_yes):
        read(said)
    for cues in TOPICS.values():
        cues.found_in(said)
    amounts(said.text)
    codes(said.text)
    assert perf_counter() - began < 5  # quadratic reading would take minutes
