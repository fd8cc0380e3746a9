from turngym.envs.builtin.mcp_tools.demo import TOOLS, demo_tasks
from turngym.envs.builtin.mcp_tools.demo_server import Storeroom, answer
from turngym.envs.tasks import iterate


def said(room, call):
    params = {"name": call["tool"], "arguments": call["arguments"]}
    result = answer({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, room)["result"]
    assert not result.get("isError")
    return result["content"][0]["text"]


def test_the_solution_leads_to_the_target_and_its_last_word_holds_the_answer():
    for task in iterate(demo_tasks(), "test", 300):
        room = Storeroom()
        for call in task.metadata["setup"]:
            said(room, call)
        before = room.stock()
        told = [said(room, call) for call in task.metadata["solution"]]
        assert room.stock() == task.target["stock"]
        lines = [line.split(": ") for line in told[-1].split("\n")]
        (kind,) = task.tags
        text = task.prompt[0].text
        if kind == "count":
            assert task.target == {"answer": sum(int(number) for _, number in lines), "stock": before}
        elif kind == "clear":
            assert task.target["answer"] == len(lines)
        else:
            item = next(name for name, _ in lines if f"{name}s are on shelf" in text)
            assert task.target["answer"] == int(dict(lines)[item])
        assert {call["tool"] for call in task.metadata["solution"]} <= set(TOOLS)


def test_all_kinds_occur_and_no_task_is_in_both_splits():
    tasks = demo_tasks()
    drawn = {split: list(iterate(tasks, split, 400)) for split in tasks.splits}
    assert {task.tags[0] for task in drawn["train"]} == {"count", "move", "clear"}
    hashes = {split: {task.content_hash for task in some} for split, some in drawn.items()}
    assert not hashes["train"] & hashes["test"]
    assert len(hashes["train"] | hashes["test"]) > 790
