"""Errors of the trainer.

TrainerError(Exception)
├── UnplacedReward(ValueError)     a reward with no action token to sit on, or one that is no number
├── ConfigError(ValueError)        a configuration that cannot work; says which key and what to write
├── HealthError(RuntimeError)      training was stopped: NaN, collapsed entropy, engine and trainer disagree
└── CheckpointError(RuntimeError)  a checkpoint that cannot be written or resumed from
"""

from __future__ import annotations


class TrainerError(Exception):
    """Root of everything that the trainer raises on purpose."""


class UnplacedReward(TrainerError, ValueError):
    """An episode earned a reward, but it has no action token to pay it to, or the reward is not finite."""


class ConfigError(TrainerError, ValueError):
    """The configuration cannot work."""


class HealthError(TrainerError, RuntimeError):
    """The health guard stopped the run."""


class CheckpointError(TrainerError, RuntimeError):
    """A checkpoint could not be written, or does not fit the run."""
