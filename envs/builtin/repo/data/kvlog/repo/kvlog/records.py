"""Changes as lines, and lines as changes."""

from kvlog.codec import decode, encode


def set_line(key, value, expiry):
    """The line that sets a key; `expiry` is a number or None."""
    return "set %s %s %s\n" % (encode(key), encode(value), "-" if expiry is None else repr(float(expiry)))


def del_line(key):
    """The line that deletes a key."""
    return "del %s\n" % encode(key)


def read_line(line):
    """("set", key, value, expiry) or ("del", key).

    Raises:
        ValueError: it is neither.
    """
    words = line.rstrip("\n").split(" ")
    if words[0] == "set" and len(words) == 4:
        expiry = None if words[3] == "-" else float(words[3])
        return "set", decode(words[1]), decode(words[2]), expiry
    if words[0] == "del" and len(words) == 2:
        return "del", decode(words[1])
    raise ValueError("not a line of a log: %r" % line)
