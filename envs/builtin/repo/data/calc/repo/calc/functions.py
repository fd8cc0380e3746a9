"""The functions of the language: name -> (fewest arguments, most arguments or None, function)."""

import math

FUNCTIONS = {
    "min": (1, None, min),
    "max": (1, None, max),
    "abs": (1, 1, abs),
    "sqrt": (1, 1, math.sqrt),
    "round": (1, 2, round),
}


def call(name, arguments):
    """The value of a call.

    Raises:
        KeyError: there is no such function.
        TypeError: the number of arguments is wrong.
    """
    fewest, most, function = FUNCTIONS[name]
    if len(arguments) < fewest or (most is not None and len(arguments) > most):
        raise TypeError("%s takes another number of arguments" % name)
    if name in ("min", "max"):
        return function(arguments)
    return function(*arguments)
