"""Errors of the agent layer.

AgentError(Exception)
├── EngineError(RuntimeError)       the engine failed to answer: infrastructure, retried, never scored
├── TemplateError(ValueError)       a chat template cannot be rendered or bridged exactly
├── SamplingError(ValueError)       sampling options that cannot be trained on or make no sense
├── PolicyError(RuntimeError)       a reference policy raised: its author's mistake, never scored
├── ModelNotFound(FileNotFoundError)  no such model folder or built-in model
└── BadSpec(ValueError)             an agent spec that names no agent
"""

from __future__ import annotations


class AgentError(Exception):
    """Root of everything that an agent raises on purpose."""


class EngineError(AgentError, RuntimeError):
    """The engine failed; the episode is retried in a fresh environment."""


class TemplateError(AgentError, ValueError):
    """The chat template cannot do what was asked of it."""


class SamplingError(AgentError, ValueError):
    """Sampling options that make no sense, or that training could not reproduce."""


class PolicyError(AgentError, RuntimeError):
    """A reference policy of an environment raised an exception."""


class ModelNotFound(AgentError, FileNotFoundError):
    """There is no such model."""


class BadSpec(AgentError, ValueError):
    """The agent spec names no agent; the message lists those there are."""
