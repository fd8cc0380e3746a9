import json
import shutil

import pytest

from turngym.envs.builtin.repo.tasks import OWN, repo_tasks, test_names
from turngym.envs.errors import ContractError
from turngym.envs.tasks import iterate

test_names.__test__ = False  # no test, whatever its name begins with


def test_there_are_twenty_tasks_of_five_repositories():
    tasks = [task for split in ("train", "test") for task in iterate(repo_tasks(), split)]
    assert len(tasks) == 20
    assert len({task.tags for task in tasks}) == 5
    assert repo_tasks().size("test") == 10
    for task in tasks:
        modules = [path for path in task.metadata["files"] if path.endswith(".py")]
        assert 5 <= len(modules) <= 12
        assert not any("hidden" in path for path in task.metadata["files"])


def test_names_of_tests_are_read_without_running_them():
    source = (
        "import x\nclass A(T):\n    def test_a(self): 1/0\n    def helper(self): ...\ndef test_b(): ...\n"
    )
    assert test_names(source) == ["A.test_a"]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(OWN / "calc", tmp_path / "calc")
    return tmp_path


def changed(folder, **update):
    path = folder / "calc" / "tasks" / "no-arguments.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | update))


def test_a_folder_of_ones_own_is_read(folder):
    tasks = repo_tasks(folder)
    assert [tasks.size(split) for split in tasks.splits] == [2, 2]
    assert tasks.get("calc-no-arguments").target["tests"][0] == "TestArguments.test_none"


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"split": "dev"}, r"no-arguments\.json.*\n.*split"),
        ({"breaks": []}, "breaks"),
        (
            {"breaks": [{"file": "calc/no.py", "right": "a", "wrong": "b"}]},
            "does not occur exactly once in calc/no",
        ),
        (
            {"breaks": [{"file": "calc/errors.py", "right": "column", "wrong": "b"}]},
            "does not occur exactly once",
        ),
        (
            {"breaks": [{"file": "calc/errors.py", "right": "CalcError", "wrong": "self"}]},
            "exactly once in .* after",
        ),
    ],
)
def test_a_task_that_is_none_is_named(folder, update, words):
    changed(folder, **update)
    with pytest.raises(ContractError, match=words):
        repo_tasks(folder)


def test_hidden_tests_must_be_there(folder, tmp_path):
    (folder / "calc" / "tasks" / "no-arguments_hidden.py").write_text("x = 1\n")
    with pytest.raises(ContractError, match="no test method"):
        repo_tasks(folder)
    (folder / "calc" / "tasks" / "no-arguments_hidden.py").unlink()
    with pytest.raises(ContractError, match="no-arguments_hidden"):
        repo_tasks(folder)
    with pytest.raises(ContractError, match="holds no tasks"):
        repo_tasks(tmp_path / "calc" / "repo")
    with pytest.raises(FileNotFoundError):
        repo_tasks(tmp_path / "nothing")
