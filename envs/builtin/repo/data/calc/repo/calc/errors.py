"""What goes wrong, and where."""


class CalcError(ValueError):
    """An expression that cannot be read or evaluated."""

    def __init__(self, message, column):
        super().__init__("%s (column %d)" % (message, column))
        self.column = column
