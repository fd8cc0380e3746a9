"""Texts as words without blanks, and back."""

_SPECIAL = " %\n\r\t"


def encode(text):
    """A text as one word; the empty text is `%`."""
    if text == "":
        return "%"
    return "".join("%%%02x" % ord(ch) if ch in _SPECIAL else ch for ch in text)


def decode(word):
    """The text of a word."""
    if word == "%":
        return ""
    out = []
    place = 0
    while place < len(word):
        if word[place] == "%":
            out.append(chr(int(word[place + 1 : place + 3], 16)))
            place += 3
        else:
            out.append(word[place])
            place += 1
    return "".join(out)
