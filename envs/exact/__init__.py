"""The exact answer for small games: how much the best policy earns on average, which policy that is, and how much any
given policy earns, computed from the game's table of outcomes instead of being estimated from episodes.

    solution = value_iteration(gymnasium.make("FrozenLake-v1"), limit=100)
    solution.mean                                            # 0.7442: nobody wins more often within 100 steps
    mdp = mdp_of(gymnasium.make("Taxi-v4"))
    mdp.mean(evaluate_policy(mdp, random_policy(mdp), limit=200))
"""

from turngym.envs.exact.blackjack import blackjack
from turngym.envs.exact.evaluate import evaluate_policy, random_policy, return_deviation, return_range
from turngym.envs.exact.mdp import MDP, mdp_of
from turngym.envs.exact.solve import Solution, value_iteration

__all__ = [
    "MDP",
    "Solution",
    "blackjack",
    "evaluate_policy",
    "mdp_of",
    "random_policy",
    "return_deviation",
    "return_range",
    "value_iteration",
]
