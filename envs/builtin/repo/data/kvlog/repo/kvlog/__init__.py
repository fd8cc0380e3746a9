"""A key-value store that is a log."""

from kvlog.store import Store

__all__ = ["Store"]
