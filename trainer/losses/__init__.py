"""Losses: per-token terms to be minimised, and how they are averaged. Pure functions."""

from turngym.trainer.losses.aggregate import AGGREGATIONS, Normaliser, aggregate
from turngym.trainer.losses.kl import KL_ESTIMATORS
from turngym.trainer.losses.policy import ppo_clip, reinforce
from turngym.trainer.losses.value import value_loss

__all__ = [
    "AGGREGATIONS",
    "KL_ESTIMATORS",
    "Normaliser",
    "aggregate",
    "ppo_clip",
    "reinforce",
    "value_loss",
]
