"""Text to pieces: ("text", s), ("value", s), ("tag", s)."""

import re

_PIECE = re.compile(r"\{\{(.*?)\}\}|\{%(.*?)%\}", re.DOTALL)


def pieces(source):
    """The pieces of a template, in order; empty texts are left out."""
    found = []
    place = 0
    for match in _PIECE.finditer(source):
        if match.start() > place:
            found.append(("text", source[place : match.start()]))
        if match[1] is not None:
            found.append(("value", match[1].strip()))
        else:
            found.append(("tag", match[2].strip()))
        place = match.end()
    if place < len(source):
        found.append(("text", source[place:]))
    return found
