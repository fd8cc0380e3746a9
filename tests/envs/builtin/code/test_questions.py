import contextlib
import io

import numpy as np
import pytest

from turngym.envs.builtin.code.questions import KINDS, picker


def printed(program):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {})
    return int(out.getvalue())


@pytest.mark.parametrize("kind", KINDS)
def test_the_program_prints_the_answer(kind):
    for seed in range(40):
        question = KINDS[kind](picker(np.random.default_rng(seed)))
        assert printed(question.program) == question.answer, question.text
        assert question.text.endswith((".", "?"))


def test_answers_that_a_person_has_worked_out():
    def asked(kind, *numbers):
        given = iter(numbers)
        return KINDS[kind](lambda low, high: next(given))

    assert asked("digits", 2, 10).answer == 1 + 0 + 2 + 4
    assert asked("divisible", 12, 3, 4).answer == 3  # 3, 9, 12 of 3 4 6 8 9 12 have an odd sum: 3, 9, 3
    assert asked("recurrence", 0, 1, 1, 1, 1000, 10).answer == 55
    assert asked("change", 2, 6, 13, 7).answer == 5  # 1s and 2s: 4 ways; with one 6: 1 way
    assert asked("collatz", 1, 6).answer == 7  # 16 steps, more than any of 1 … 7
    assert asked("divisors", 3, 3).answer == 7  # all but (2,2) and (3,3)
    assert asked("increasing", 1, 2, 1, 100, 5).answer == 5  # 1 3 7 15 31
