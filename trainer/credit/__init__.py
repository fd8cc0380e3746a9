"""Credit: which action token deserves how much of the reward. Pure functions; tensors in, tensors out."""

from turngym.trainer.credit.gae import gae
from turngym.trainer.credit.group import grpo, rloo
from turngym.trainer.credit.returns import reward_to_go
from turngym.trainer.credit.whiten import normalise, whiten

__all__ = ["gae", "grpo", "normalise", "reward_to_go", "rloo", "whiten"]
