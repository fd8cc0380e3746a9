"""What decides how an agent plays, as data: so that two policies are never taken for one.

An agent, engine or renderer that can say it has a method `describe`. An evaluation stores what its agent says, and
goes on only with one that says the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Described(Protocol):
    """Something that can tell what it is."""

    def describe(self) -> Mapping[str, Any]:
        """JSON data that is equal for equal behaviour, in any process."""
        ...


def description(of: object) -> dict[str, Any]:
    """What it says of itself; nothing if it does not."""
    return dict(of.describe()) if isinstance(of, Described) else {}
