from __future__ import annotations

import pytest

from turngym.envs import questions, user


def test_pairs_become_tasks():
    tasks = questions(train={"2+2?": 4, "3+3?": 6}, test={"5+5?": 10})
    assert tasks.splits == ("train", "test")
    assert tasks.get("train-1").prompt == (user("3+3?"),)
    assert tasks.get("train-1").target == 6


def test_a_question_in_two_splits_is_refused():
    with pytest.raises(ValueError, match="is in the splits"):
        questions(train={"2+2?": 4}, test={"2+2?": 4})
