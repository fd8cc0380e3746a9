import json

import pytest

from turngym.envs.errors import ContractError, UnknownTask
from turngym.envs.messages import user
from turngym.envs.rows import BadRow, JsonLines, RowTasks, partition, read_rows
from turngym.envs.tasks import Task, TaskSet


def to_task(row):
    return Task(id=row.get("id", ""), prompt=(user(row["question"]),), target=row["answer"])


def write(path, rows):
    path.write_bytes(b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows))
    return path


def rows_of(count, start=0):
    return [{"question": f"{n}?", "answer": n} for n in range(start, start + count)]


def test_lines_end_with_a_line_feed_and_nothing_else(tmp_path):
    odd = "a\u2028b\u2029c\x85d\x0be\x0cf"
    path = tmp_path / "odd.jsonl"
    path.write_bytes(f'{{"t": "{odd[:5]}"}}\r\n\n  \n{{"t": "ü"}}'.encode())
    rows = JsonLines(path)
    assert [row["t"] for row in rows] == [odd[:5], "ü"]
    assert [row["t"] for row in rows[::-1]] == ["ü", odd[:5]]
    assert rows[-1]["t"] == "ü"


def test_a_bad_line_is_named(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"question": "1?", "answer": 1}\n\n[1]\n{"question": \n{"answer": 2}\n\xff\n')
    tasks = RowTasks(to_task, train=[*rows_of(1)])
    assert tasks.at("train", 0).target == 0
    rows = read_rows(path)
    for index, words in (
        (1, "line 3: a JSON object is expected, not list"),
        (2, "line 4: no JSON"),
        (4, "line 6"),
    ):
        with pytest.raises(BadRow, match=words):
            rows[index]
    good = tmp_path / "good.jsonl"
    good.write_bytes(b'{"question": "1?", "answer": 1}\n\n{"answer": 2}\n')
    with pytest.raises(BadRow, match=r"good\.jsonl, line 3: there is no 'question'"):
        RowTasks(to_task, train=read_rows(good)).at("train", 1)


def test_tasks_are_named_by_split_and_number_or_by_themselves():
    tasks = RowTasks(
        to_task, train=rows_of(3), test=[{"id": "own", "question": "x", "answer": 1}, *rows_of(1, 9)]
    )
    assert isinstance(tasks, TaskSet)
    assert [task.id for task in tasks] == ["train-0", "train-1", "train-2", "own", "test-1"]
    assert (tasks.get("own").target, tasks.split_of("own"), tasks.get("test-1").target) == (1, "test", 9)
    for unknown in ("train-3", "train-01", "test-0", "dev-0", "nothing"):
        with pytest.raises(UnknownTask):
            tasks.get(unknown)
    with pytest.raises(UnknownTask, match="no split 'dev'"):
        tasks.size("dev")


def test_a_row_in_two_splits_is_refused(tmp_path):
    train = read_rows(write(tmp_path / "train.jsonl", rows_of(3)))
    test = read_rows(write(tmp_path / "test.jsonl", [*rows_of(1, 7), {"answer": 2, "question": "2?"}]))
    with pytest.raises(
        ContractError, match=r"test\.jsonl, line 2: this row is in split 'test' and in another"
    ):
        RowTasks(to_task, train=train, test=test)


def test_a_partition_is_stable_and_keeps_equal_questions_together():
    rows = [*rows_of(500), *({"question": f"{n}?", "answer": n, "note": 1} for n in range(500))]
    split = partition(rows, test_share=0.2, by=lambda row: row["question"])
    questions = {name: {row["question"] for row in some} for name, some in split.items()}
    assert not questions["train"] & questions["test"]
    assert 140 < len(split["test"]) < 260
    assert len(split["train"]) + len(split["test"]) == 1000
    again = partition(list(reversed(rows)), test_share=0.2, by=lambda row: row["question"])
    assert {row["question"] for row in again["test"]} == questions["test"]
    RowTasks(to_task, **split)
    with pytest.raises(ValueError, match="share"):
        partition(rows, test_share=0.0)


def test_a_folder_of_the_datasets_library(tmp_path):
    datasets = pytest.importorskip("datasets")
    both = {
        "train": datasets.Dataset.from_list(rows_of(4)),
        "test": datasets.Dataset.from_list(rows_of(2, 50)),
    }
    datasets.DatasetDict(both).save_to_disk(tmp_path / "both")
    both["train"].save_to_disk(tmp_path / "one")
    tasks = RowTasks(to_task, **{split: read_rows(tmp_path / "both", split) for split in both})
    assert [task.target for task in tasks] == [0, 1, 2, 3, 50, 51]
    assert len(read_rows(tmp_path / "one")) == 4
    with pytest.raises(ContractError, match="name a split; there are train, test"):
        read_rows(tmp_path / "both")
    with pytest.raises(ContractError, match="no split 'dev'"):
        read_rows(tmp_path / "both", "dev")


def test_what_is_no_data_set_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match="no data set"):
        read_rows(tmp_path / "nothing.jsonl")
    with pytest.raises(ContractError, match="no folder of save_to_disk"):
        read_rows(tmp_path)
