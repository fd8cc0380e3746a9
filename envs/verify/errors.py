"""What can be wrong with a text that should be an answer."""

from __future__ import annotations


class Unreadable(ValueError):
    """A text is no answer that this library can read."""


class TooLarge(ArithmeticError):
    """A value is so large, or so small, that it is not worked out."""
