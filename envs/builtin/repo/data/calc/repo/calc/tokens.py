"""From text to tokens."""

from calc.errors import CalcError

OPERATORS = "+-*/%^(),"


class Token:
    """A piece of an expression: its kind (number, name, or the operator itself), value and column."""

    def __init__(self, kind, value, column):
        self.kind = kind
        self.value = value
        self.column = column


def tokenize(text):
    """The tokens of an expression, an "end" token last."""
    tokens = []
    place = 0
    while place < len(text):
        start = place
        ch = text[place]
        if ch.isspace():
            place += 1
        elif ch in OPERATORS:
            tokens.append(Token(ch, ch, start + 1))
            place += 1
        elif ch.isdigit() or ch == ".":
            while place < len(text) and (text[place].isdigit() or text[place] == "."):
                place += 1
            tokens.append(Token("number", _number(text[start:place], start + 1), start + 1))
        elif ch.isalpha() or ch == "_":
            while place < len(text) and (text[place].isalnum() or text[place] == "_"):
                place += 1
            tokens.append(Token("name", text[start:place], start + 1))
        else:
            raise CalcError("unexpected character %r" % ch, start + 1)
    tokens.append(Token("end", None, len(text) + 1))
    return tokens


def _number(text, column):
    if text.count(".") > 1 or text == ".":
        raise CalcError("not a number: %s" % text, column)
    return float(text) if "." in text else int(text)
