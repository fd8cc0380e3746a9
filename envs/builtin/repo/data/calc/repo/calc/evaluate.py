"""From a tree to a value."""

from calc.errors import CalcError
from calc.functions import call
from calc.parser import parse


def evaluate(text, names=None):
    """The value of an expression; `names` gives the values of its variables."""
    return _value(parse(text), names or {})


def _value(tree, names):
    kind = tree[0]
    if kind == "number":
        return tree[1]
    if kind == "name":
        if tree[1] not in names:
            raise CalcError("unknown name %s" % tree[1], tree[2])
        return names[tree[1]]
    if kind == "negate":
        return -_value(tree[1], names)
    if kind == "call":
        arguments = [_value(argument, names) for argument in tree[2]]
        try:
            return call(tree[1], arguments)
        except KeyError:
            raise CalcError("unknown function %s" % tree[1], tree[3])
        except (TypeError, ValueError) as error:
            raise CalcError(str(error), tree[3])
    left, right = _value(tree[1], names), _value(tree[2], names)
    try:
        return _operate(kind, left, right)
    except ZeroDivisionError:
        raise CalcError("division by zero", tree[3])


def _operate(operator, left, right):
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "%":
        return left % right
    if operator == "^":
        return left**right
    exact = left / right
    return int(exact) if exact == int(exact) and isinstance(left, int) and isinstance(right, int) else exact
