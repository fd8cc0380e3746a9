import pytest

from turngym.envs.builtin.search.answers import Reply, citations, is_same, read_reply


@pytest.mark.parametrize(
    ("text", "answer", "sources"),
    [
        ("Answer: Ker Ost\nSources: d0001", "Ker Ost", {"d0001"}),
        ("  Answer: 12,480\nSources: d0001, d0002,d0003 \n", "12,480", {"d0001", "d0002", "d0003"}),
        ("Answer:\tx\nSources:d1", "x", {"d1"}),
        ("Answer: a, b\nSources: d0001, d0001", "a, b", {"d0001"}),
    ],
)
def test_two_lines_are_an_answer(text, answer, sources):
    assert read_reply(text) == Reply(answer, frozenset(sources))


def test_anything_else_is_none():
    texts = (
        "", "Ker Ost", "Answer: Ker Ost", "Sources: d0001\nAnswer: Ker Ost", "Answer: Ker Ost\nSources:",
        "Answer: \nSources: d0001", "Answer: Ker Ost\n\nSources: d0001", "Answer: Ker Ost Sources: d0001",
        "The answer is:\nAnswer: Ker Ost\nSources: d0001", "Answer: Ker Ost\nSources: d0001\nI am sure.",
        "Answer: Ker Ost\nAnswer: Bo\nSources: d0001", "answer: Ker Ost\nsources: d0001",
        "Answer: Ker Ost\nSources: d0001 d0002", "Answer: Ker Ost\nSources: d0001;", "Answer: Ker Ost\nSources: d0001.",
        "Answer: Ker Ost\nSources: [d0001]", "Answer: Ker Ost\nSources: d٣", "Answer: " + "x" * 201 + "\nSources: d1",
        "Answer: x\nSources: " + ", ".join(["d1"] * 101), "Answer: x\nSources: " + "d1," * 10**6,
        '{"answer": "Ker Ost", "sources": ["d0001"]}', "Answer: x\r\nSources: d1\x00",
        "Answer: x\nSources: d1\nSources: d2",
    )  # fmt: skip
    for text in texts:
        assert read_reply(text) is None


def test_answers_are_compared_by_value():
    cases = (
        ("Ker Ost", "Ker Ost", True), ("ker  OST", "Ker Ost", True), ("Ker\u00a0Ost", "Ker Ost", True),
        ("Ost", "Ker Ost", False), ("Ker Ost.", "Ker Ost", False), ("Ker Ost or Bo", "Ker Ost", False),
        ("KerOst", "Ker Ost", False), ("", "Ker Ost", False),
        ("12480", 12480, True), ("12,480", 12480, True), ("012480", 12480, True), ("12480.0", 12480, False),
        ("1,2480", 12480, False), ("12 480", 12480, False), ("12480 people", 12480, False), ("-12480", 12480, False),
        ("١٢٤٨٠", 12480, False), ("9" * 5000, 12480, False), ("1987", "1987", True), ("NaN", 1987, False),
    )  # fmt: skip
    for answer, target, same in cases:
        assert is_same(answer, target) is same, (answer[:50], target)


def test_citations_by_hand():
    needed = frozenset({"d1", "d2"})
    exact, half, spam = (
        citations(frozenset(c), needed) for c in ({"d1", "d2"}, {"d1"}, {f"d{n}" for n in range(8)})
    )
    assert (exact.precision, exact.recall, exact.f1) == (1.0, 1.0, 1.0)
    assert (half.precision, half.recall, half.f1) == (1.0, 0.5, pytest.approx(2 / 3))
    assert (spam.precision, spam.recall, spam.f1) == (0.25, 1.0, pytest.approx(0.4))
    assert citations(frozenset({"d3"}), needed).f1 == citations(frozenset(), needed).f1 == 0.0
    for extra in range(1, 20):  # each citation too many costs
        more, less = (citations(needed | {f"x{n}" for n in range(k)}, needed).f1 for k in (extra, extra - 1))
        assert more < less
