"""The shortest way to tasks: question and answer pairs, split by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turngym.envs.messages import user
from turngym.envs.tasks import ListTasks, Task


def questions(**splits: Mapping[str, Any]) -> ListTasks:
    """Tasks from questions and their hidden answers: `questions(train={"2+2?": 4}, test={"3+5?": 8})`.

    Ids are `train-0`, `train-1`, …, in the order given.

    Raises:
        ValueError: two splits share a question.
    """
    return ListTasks(
        **{
            split: [
                Task(id=f"{split}-{index}", prompt=(user(question),), target=answer)
                for index, (question, answer) in enumerate(pairs.items())
            ]
            for split, pairs in splits.items()
        }
    )
