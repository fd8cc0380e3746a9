"""Pieces to a tree: ("text", s), ("value", path, filters), ("for", name, path, body), ("if", path, body, otherwise)."""

from templates.lexer import pieces


class TemplateError(ValueError):
    """A template that cannot be read."""


def parse(source):
    """The tree of a template."""
    stream = pieces(source)
    body, _, closed_by = _body(stream, 0)
    if closed_by is not None:
        raise TemplateError("unexpected tag %r" % closed_by)
    return body


def _body(stream, place):
    """Nodes up to an end or else tag: the nodes, the place behind that tag, and the tag (None at the end)."""
    nodes = []
    while place < len(stream):
        kind, text = stream[place]
        place += 1
        if kind == "text":
            nodes.append(("text", text))
        elif kind == "value":
            path, *filters = [part.strip() for part in text.split("|")]
            nodes.append(("value", path, [_filter(one) for one in filters]))
        elif text in ("end", "else"):
            return nodes, place, text
        else:
            node, place = _block(text, stream, place)
            nodes.append(node)
    return nodes, place, None


def _block(text, stream, place):
    words = text.split()
    if len(words) == 4 and words[0] == "for" and words[2] == "in":
        body, place, closed_by = _body(stream, place)
        if closed_by != "end":
            raise TemplateError("a for without its end")
        return ("for", words[1], words[3], body), place
    if len(words) == 2 and words[0] == "if":
        body, place, closed_by = _body(stream, place)
        otherwise = []
        if closed_by == "else":
            otherwise, place, closed_by = _body(stream, place)
        if closed_by != "end":
            raise TemplateError("an if without its end")
        return ("if", words[1], body, otherwise), place
    raise TemplateError("unknown tag %r" % text)


def _filter(text):
    name, _, argument = text.partition(":")
    return name, argument
