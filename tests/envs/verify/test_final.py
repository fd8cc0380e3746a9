import pytest

from turngym.envs.verify import final_answers, reference_answer


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        # boxes
        (r"So \boxed{7}.", ["7"]),
        (r"\boxed{\frac{1}{2}} and more", [r"\frac{1}{2}"]),
        (r"\boxed{3} boxes, then we see \boxed{7}", ["7"]),
        (r"\boxed{7} or \boxed{8}", ["7", "8"]),
        (r"The answer is \boxed{7}. The answer is \boxed{8}.", ["7", "8"]),
        (r"x = \boxed{1}, y = \boxed{2}", ["1", "2"]),
        (r"\frac{\boxed{1}}{\boxed{2}}", ["1", "2"]),
        (r"\boxed{\boxed{7}}", [r"\boxed{7}"]),
        (r"\boxed{\{1\}}", [r"\{1\}"]),
        (r"\boxed 7.", ["7"]),
        (r"\fbox{7}", ["7"]),
        (r"\boxed{7", []),
        (r"\boxed{7} but \boxed{8", []),
        (r"\boxed", []),
        (r"\boxed{}", [""]),
        (r"The answer is 7. \boxed{8}", ["8"]),
        # thinking is no answer
        (r"<think>\boxed{7}</think> \boxed{8}", ["8"]),
        (r"<think>\boxed{7}</think>", []),
        (r"<think>\boxed{7}", []),
        (r"\boxed{7}</think>", []),
        # GSM8K's form
        ("9 * 2 = 18\n#### 18", ["18"]),
        ("#### 18\n\nQuestion: another one? It has more words.\n#### 7", ["7"]),
        ("#### 1\n#### 2", ["1", "2"]),
        ("#### Step 3\nx", []),
        ("#### $1,234.", ["$1,234"]),
        # announcements
        ("The answer is 7.", ["7"]),
        ("**Final Answer:** 7", ["7"]),
        ("Final Answer: The final answer is $7$. I hope it is correct.", ["$7$"]),
        ("Final Answer: The largest $n$ is 34.", ["34"]),
        ("the answer is:\n\n$$7$$", ["$$7$$"]),
        ("The answer is 3.5.", ["3.5"]),
        ("Answer: 10 in. of rope", ["10 in. of rope"]),
        ("The answer is 7, not 8", ["7, not 8"]),
        ("The answer is not 7.", ["not 7"]),
        ("The answer is 7. The answer is 8.", ["7", "8"]),
        ("The answer is 5! = 120", ["5! = 120"]),
        ("The answer is 7!", ["7"]),
        ("The answer is 7?", ["7?"]),
        ("Is the answer 7?", ["Is the answer 7?"]),
        ("Answer:", ["Answer:"]),
        # one sentence, or the last
        ("7", ["7"]),
        ("**7**", ["7"]),
        ("x = 7", ["x = 7"]),
        ("So there are 7 apples left.", ["7 apples left"]),
        ("Therefore, $x=7$.", ["x=7"]),
        ("Thus $x \\ge 7$ is the solution.", ["x \\ge 7"]),
        ("We add 3. So it is 7.", ["7"]),
        ("It is 7. It is 8.", ["7", "8"]),
        ("It is not 7.", ["It is not 7"]),
        ("We add 3.\nPerhaps it is 7.", []),
        ("We add 3 and 4.\n\nNo more.", []),
        ("Does x have 7 digits? Is it 7?", []),
        ("", []),
        (" \n ", []),
    ],
)  # fmt: skip
def test_which_text_is_the_final_answer(reply, answers):
    assert list(final_answers(reply)) == answers


@pytest.mark.parametrize(
    ("reference", "answer"),
    [
        ("7", "7"), (" 7. ", "7"), (r"So \boxed{7}.", "7"), ("9*2\n#### 18", "18"), (r"\text{Yes}", r"\text{Yes}"),
        (r"\boxed{1} and \boxed{2}", "1, 2"), (r"First \boxed{1} is cut, and then left: \boxed{2}", "2"),
        ("The answer is 7", "The answer is 7"),
    ],
)  # fmt: skip
def test_the_answer_in_a_reference(reference, answer):
    assert reference_answer(reference) == answer


def test_long_replies_are_read_in_linear_time():
    for piece in (
        "\\(",
        "\\boxed{",
        "####",
        "the answer is ",
        ".",
        "'",
        "$",
        "is 7. ",
        "a",
        "\\boxed{1}",
        "<think>",
    ):
        final_answers(piece * (400_000 // len(piece)))
