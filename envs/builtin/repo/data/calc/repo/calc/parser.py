"""From tokens to a tree of tuples: ("number", n), ("name", s), ("negate", x), (operator, x, y), ("call", name, args)."""

from calc.errors import CalcError
from calc.tokens import tokenize


def parse(text):
    """The tree of an expression."""
    reader = _Reader(tokenize(text))
    tree = _sum(reader)
    reader.expect("end")
    return tree


class _Reader:
    def __init__(self, tokens):
        self.tokens = tokens
        self.place = 0

    @property
    def kind(self):
        return self.tokens[self.place].kind

    def take(self):
        token = self.tokens[self.place]
        self.place += 1
        return token

    def expect(self, kind):
        token = self.take()
        if token.kind != kind:
            raise CalcError("expected %s" % kind, token.column)
        return token


def _sum(reader):
    tree = _product(reader)
    while reader.kind in ("+", "-"):
        token = reader.take()
        tree = (token.kind, tree, _product(reader), token.column)
    return tree


def _product(reader):
    tree = _signed(reader)
    while reader.kind in ("*", "/", "%"):
        token = reader.take()
        tree = (token.kind, tree, _signed(reader), token.column)
    return tree


def _signed(reader):
    if reader.kind == "-":
        reader.take()
        return ("negate", _signed(reader))
    return _power(reader)


def _power(reader):
    base = _atom(reader)
    if reader.kind == "^":
        token = reader.take()
        return ("^", base, _signed(reader), token.column)
    return base


def _atom(reader):
    token = reader.take()
    if token.kind == "number":
        return ("number", token.value)
    if token.kind == "(":
        tree = _sum(reader)
        reader.expect(")")
        return tree
    if token.kind == "name":
        if reader.kind != "(":
            return ("name", token.value, token.column)
        reader.take()
        return ("call", token.value, _arguments(reader), token.column)
    raise CalcError("expected a value", token.column)


def _arguments(reader):
    arguments = []
    if reader.kind == ")":
        reader.take()
        return arguments
    while True:
        arguments.append(_sum(reader))
        if reader.kind == ",":
            reader.take()
            continue
        reader.expect(")")
        return arguments
