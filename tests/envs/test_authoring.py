"""A complete new environment, as an author writes it: at most 25 lines, imports and registration included."""

from __future__ import annotations

import types

import pytest

from turngym.envs import check, list_envs, make

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
