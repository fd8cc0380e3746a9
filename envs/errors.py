"""Errors of the environment layer.

EnvError(Exception)
├── UnknownEnv(KeyError)          no environment of that id; names the nearest ones
├── UnknownTask(KeyError)         the task set has no such id or split
├── UnknownPolicy(KeyError)       the environment has no reference policy of that name
├── UnknownArgument(TypeError)    the environment takes no argument of that name; names those that it takes
├── ContractError(TypeError)      an environment is written wrongly: untyped tool, both faces, no 5-tuple
├── InvalidReward(ValueError)     a reward or metric was not finite, or outside of its range
├── InvalidAction(TypeError)      `step` got something that is not an assistant message
├── EpisodeOver(RuntimeError)     `step` after the end, or before `reset`
├── MissingExtra(ImportError)     an optional library is not installed; names the extra
└── InfrastructureError(RuntimeError)
    └── GradingError              the verifier itself failed: never a score of 0
"""

from __future__ import annotations


class EnvError(Exception):
    """Root of everything that an environment raises on purpose."""


class UnknownEnv(EnvError, KeyError):
    """No environment is registered under that id."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would print the repr, quotes and all


class UnknownTask(EnvError, KeyError):
    """The task set has no task or split of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownPolicy(EnvError, KeyError):
    """The environment has no reference policy of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownArgument(EnvError, TypeError):
    """The environment takes no argument of that name."""


class ContractError(EnvError, TypeError):
    """The author of an environment broke the contract; said as early as it can be noticed."""


class InvalidReward(EnvError, ValueError):
    """A reward or a metric is not a finite number in its range."""


class InvalidAction(EnvError, TypeError):
    """An action was neither text nor an assistant message."""


class EpisodeOver(EnvError, RuntimeError):
    """`step` was called with no episode running."""


class MissingExtra(EnvError, ImportError):
    """An optional library is missing; the message names the extra that brings it."""


class InfrastructureError(EnvError, RuntimeError):
    """Something under the environment broke (a service, a verifier); the episode is retried, never scored."""


class GradingError(InfrastructureError):
    """The verifier failed, so the answer has no score."""
