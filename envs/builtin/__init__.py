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
register("turngym/GuessNumber-v0", "turngym.envs.builtin.guess_number:GuessNumber")
register("turngym/TicTacToe-v0", "turngym.envs.builtin.tic_tac_toe.environment:TicTacToe")
register("turngym/Wordle-v0", "turngym.envs.builtin.wordle.environment:Wordle")
