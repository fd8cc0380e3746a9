"""Losses: per-token terms to be minimised, and how they are averaged. Pure functions; tensors in, tensors out."""

from turngym.trainer.losses.aggregate import AGGREGATIONS, Normaliser, aggregate
from turngym.trainer.losses.entropy import entropy
from turngym.trainer.losses.kl import KL_ESTIMATORS
from turngym.trainer.losses.policy import ppo_clip, reinforce
from turngym.trainer.losses.value import value_loss

__all__ = [
    "AGGREGATIONS",
    "KL_ESTIMATORS",
    "Normaliser",
    "aggregate",
    "entropy",
    "ppo_clip",
    "reinforce",
    "value_loss",
]
