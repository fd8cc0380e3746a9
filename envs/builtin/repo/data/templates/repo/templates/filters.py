"""Filters: functions of a value and the text behind the colon."""


def default(value, argument):
    """The argument, where there is no value."""
    return argument if value is None or value == "" else value


def join(value, argument):
    """The items of a list, with the argument between them."""
    return argument.join(str(item) for item in value)


FILTERS = {
    "upper": lambda value, _: str(value).upper(),
    "lower": lambda value, _: str(value).lower(),
    "trim": lambda value, _: str(value).strip(),
    "default": default,
    "join": join,
}
