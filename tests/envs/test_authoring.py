"""A complete new environment, as an author writes it: at most 25 lines, imports and registration included."""

from __future__ import annotations

import re
import types
from pathlib import Path

import pytest

from turngym.envs import ToolCall, assistant, check, list_envs, make

EXAMPLE = '''\
from turngym.envs import ToolCall, ToolEnv, assistant, questions, register, reward, tool

STOCK = {f"A{n}": n * 37 % 100 for n in range(1000)}
ASKED = [(f"How many {article} are left?", left) for article, left in STOCK.items()]


@register("demo/Stock-v0")
class Stock(ToolEnv):
    """Look up how many pieces of an article are left."""

    tasks = questions(train=dict(ASKED[:900]), test=dict(ASKED[900:]))

    @tool
    def look_up(self, article: str) -> int:
        """Pieces of an article in stock."""
        return STOCK[article]

    @reward
    def correct(self, answer: str, target: int) -> float:
        return float(answer.strip() == str(target))

    @staticmethod
    def expert(task, history, rng):
        call = ToolCall.of("look_up", {"article": task.prompt[0].text.split()[2]})
        return assistant(history[-1].text) if history[-1].role == "tool" else assistant(None, call)
'''


@pytest.mark.usefixtures("clean_registry")
def test_a_new_environment_in_25_lines():
    assert len(EXAMPLE.splitlines()) <= 25
    module = types.ModuleType("demo")
    exec(EXAMPLE, module.__dict__)
    assert [result for result in check("demo/Stock-v0") if not result.ok] == []
    env = make("demo/Stock-v0", split="test")
    env.reset(seed=0)
    rng = None
    while not (result := env.step(module.Stock.expert(env.task, env.history, rng)))[2]:
        pass
    assert result[1] == 1.0
    (listing,) = [one for one in list_envs() if one.id == "demo/Stock-v0"]
    assert listing.summary == "Look up how many pieces of an article are left."


PAGE = Path(__file__).resolve().parents[2] / "docs" / "authoring.md"


def test_the_code_of_the_authoring_page_runs(tmp_path, monkeypatch):
    """What it does from nothing to a trained agent is followed in tests/turngym/test_authoring_page.py."""
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    module = types.ModuleType("page")
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), module.__dict__)
    assert len(blocks) >= 10
    env = module.Scribe()
    env.reset(seed=0, options={"task": "train-0"})
    env.step(assistant(None, ToolCall.of("write", {"page": "answer", "text": "red"})))
    assert env.step("done")[1] == 1.0
