"""A tree and values to text."""

from templates.filters import FILTERS
from templates.parser import TemplateError, parse

_ESCAPES = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"))


def render(source, values):
    """The text of a template with values filled in."""
    return _text(parse(source), dict(values))


def _text(nodes, values):
    return "".join(_node(node, values) for node in nodes)


def _node(node, values):
    kind = node[0]
    if kind == "text":
        return node[1]
    if kind == "value":
        return _value(node[1], node[2], values)
    if kind == "if":
        return _text(node[2] if look_up(node[1], values) else node[3], values)
    _, name, path, body = node
    out = []
    for number, item in enumerate(look_up(path, values) or (), start=1):
        out.append(_text(body, {**values, name: item, "loop": {"index": number}}))
    return "".join(out)


def look_up(path, values):
    """The value at a dotted path; None where there is none."""
    found = values
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            return None
        found = found[part]
    return found


def _value(path, filters, values):
    value = look_up(path, values)
    is_safe = False
    for name, argument in filters:
        if name == "safe":
            is_safe = True
        elif name not in FILTERS:
            raise TemplateError("unknown filter %r" % name)
        else:
            value = FILTERS[name](value, argument)
    text = "" if value is None else str(value)
    return text if is_safe else escape(text)


def escape(text):
    """A text for HTML."""
    for sign, entity in _ESCAPES:
        text = text.replace(sign, entity)
    return text
