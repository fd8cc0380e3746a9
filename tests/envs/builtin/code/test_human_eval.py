import pytest

from turngym.envs import check, make
from turngym.envs.builtin.code.human_eval import task_set
from turngym.envs.tasks import iterate
from turngym.evaluation.runner import evaluate

ID = "turngym/HumanEval-v0"
pytestmark = pytest.mark.usefixtures("namespaces")


def test_every_reference_solution_passes_public_and_hidden_tests():
    for split, count in (("train", 39), ("test", 125)):
        report = evaluate(ID, "expert", split=split, concurrency=8)
        assert (report.episodes, report.failed, report.success.mean, report.mean_turns) == (
            count,
            {},
            1.0,
            1.0,
        )


def test_there_are_164_tasks_and_a_third_has_public_tests():
    tasks = [task for split in ("train", "test") for task in iterate(task_set(), split)]
    assert len(tasks) == 164
    assert sum(task.metadata["public"] is not None for task in tasks) == 54
    assert all("check(candidate)" not in task.prompt[0].text for task in tasks)


def test_a_function_that_returns_nothing_fails_every_task():
    env = make(ID, max_turns=1)
    for split in ("train", "test"):
        for index in range(0, env.tasks.size(split), 9):
            task = env.tasks.at(split, index)
            env.reset(options={"task": task})
            assert env.step("```python\npass\n```")[1] == 0.0, task.id


def test_it_keeps_the_laws():
    assert [result for result in check(ID, tasks=4) if not result.ok] == []
