import json

import pytest

from turngym.envs import user
from turngym.envs.builtin.mcp_tools.tasks import calls_in, read_tasks
from turngym.envs.errors import ContractError
from turngym.envs.rows import BadRow


def write(path, *rows):
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_of_tasks(tmp_path):
    solution = [{"tool": "look", "arguments": {"shelf": "A"}}, {"tool": "stock"}]
    path = write(
        tmp_path / "tasks.jsonl",
        {"id": "a", "prompt": "What\u2028is on A?", "target": ["x"], "metadata": {"solution": solution, "level": 3}},
        {"id": "b", "prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "split": "test"},
        "",
        {"id": "c", "prompt": "3?", "target": 0, "tags": ["easy"]},
    )  # fmt: skip
    tasks = read_tasks(path)
    assert tasks.splits == ("train", "test")
    assert (tasks.size("train"), tasks.size("test")) == (2, 1)
    first, second, third = (tasks.get(id) for id in "abc")
    assert (first.prompt, first.target, first.metadata["level"]) == ((user("What\u2028is on A?"),), ["x"], 3)
    assert [message.role for message in second.prompt] == ["system", "user"]
    assert (second.target, third.target, third.tags) == (None, 0, ("easy",))
    assert calls_in(first, "solution") == (("look", {"shelf": "A"}), ("stock", {}))
    assert calls_in(first, "setup") is None


def test_what_is_wrong_is_named_with_its_place(tmp_path):
    good = {"id": "a", "prompt": "x"}
    cases = (
        ([{"prompt": "x"}], BadRow, "task 1: there is no 'id'"),
        ([good, {"id": "b"}], BadRow, "task 2: there is no 'prompt'"),
        ([{**good, "id": 7}], BadRow, "id is a text, not 7"),
        ([{**good, "prompt": []}], BadRow, "a text or a list of messages"),
        ([{**good, "prompt": [{"role": "elf", "content": "x"}]}], BadRow, "role"),
        ([{**good, "answer": 3}], BadRow, "'answer' means nothing here; a task has id, metadata"),
        ([{**good, "split": ""}], BadRow, "split is a text"),
        ([{**good, "metadata": {"setup": "look"}}], BadRow, "metadata.setup of task 'a' is no list"),
        ([{**good, "metadata": {"solution": [{"tool": "look", "arguments": [1]}]}}], BadRow, "arguments are an object"),
        ([good, good], ContractError, "occurs twice"),
        ([good, {"id": "b", "prompt": "x", "split": "test"}], ContractError, "x"),
        (["", "  "], ContractError, "holds no task"),
        (["{oops"], BadRow, "line 1: no JSON"),
    )  # fmt: skip
    for rows, error, message in cases:
        with pytest.raises(error, match=message):
            read_tasks(write(tmp_path / "tasks.jsonl", *rows))
    with pytest.raises(FileNotFoundError):
        read_tasks(tmp_path / "none.jsonl")
