from turngym.envs.builtin.mcp_tools.answers import is_same

SAME = (
    ("7", 7), (" 7 ", 7), ("7.0", 7), ("+7", 7), ("1,000", 1000), ("1000.50", 1000.5), ("-3", -3), ("−3", -3),
    ("Paris", "Paris"), ("  new   york ", "New York"), ("7", "7"), ("", ""), ("ﬁn", "fin"),
    ("true", True), ("null", None), ("[1, 2.0]", [1.0, 2]), ('{"b": 1, "a": [null]}', {"a": [None], "b": 1}),
    ("0.30000000000000004", 0.3),
)  # fmt: skip
DIFFERENT = (
    ("8", 7), ("7.", 7), ("7 or 8", 7), ("The answer is 7", 7), ("", 7), ("seven", 7), ("1,00", 100), ("٧", 7),
    ("true", 1), ("1", True), ("True", True), ("NaN", 7), ("inf", 7), ("9" * 5000, 7), ("x" * 10**6, "x"),
    ("Paris.", "Paris"), ("Paris, France", "Paris"), ("Par is", "Paris"), ("7.0", "7"),
    ("[1, 2, 3]", [1, 2]), ("[2, 1]", [1, 2]), ('{"a": 1, "b": 2}', {"a": 1}), ("[true]", [1]), ("[" * 10_000, [1]),
    ("{", {"a": 1}), ("None", None), ("0", None), ("", None), ('"a"', ["a"]),
)  # fmt: skip


def test_answers_are_compared_by_value():
    for answer, target in SAME:
        assert is_same(answer, target), (answer[:50], target)
    for answer, target in DIFFERENT:
        assert not is_same(answer, target), (answer[:50], target)
