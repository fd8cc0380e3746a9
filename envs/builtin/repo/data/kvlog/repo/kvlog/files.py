"""The log as text: complete lines, and appending. In memory here; a file would do the same."""


class TextLog:
    """A log that is a string."""

    def __init__(self, text=""):
        self.text = text

    def lines(self):
        """The complete lines; what follows the last line feed is dropped."""
        end = self.text.rfind("\n") + 1
        self.text = self.text[:end]
        return self.text.split("\n")[:-1]

    def append(self, line):
        """Write one line."""
        self.text += line

    def replace(self, lines):
        """Write these lines instead of all that is there."""
        self.text = "".join(lines)
