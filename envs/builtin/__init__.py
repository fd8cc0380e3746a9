"""The environments that come with turngym; importing this registers them, and loads none of them."""

from __future__ import annotations

from turngym.envs.registry import register

register("turngym/BFCLMultiTurn-v0", "turngym.envs.builtin.bfcl.environment:BFCLMultiTurn", extras=("bfcl",))
register("turngym/Calculator-v0", "turngym.envs.builtin.calculator:Calculator")
register("turngym/GuessNumber-v0", "turngym.envs.builtin.guess_number:GuessNumber")
register("turngym/Retail-v0", "turngym.envs.builtin.retail.environment:Retail")
