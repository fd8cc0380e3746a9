"""Text from outside, made fit for a terminal and for any encoding."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """The text with control characters, direction marks and lone surrogates written as escapes."""
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
