"""The store: the newest state of each key, replayed from the log."""

from kvlog import records
from kvlog.files import TextLog


class Store:
    """A key-value store.

    Args:
        log: where changes are written.
        now: a function that tells the time in seconds.
    """

    def __init__(self, log=None, now=lambda: 0.0):
        self.log = log if log is not None else TextLog()
        self._now = now
        self._values = {}
        for line in self.log.lines():
            self._apply(records.read_line(line))

    def _apply(self, change):
        if change[0] == "set":
            self._values[change[1]] = (change[2], change[3])
        else:
            self._values.pop(change[1], None)

    def _is_there(self, key):
        if key not in self._values:
            return False
        expiry = self._values[key][1]
        return expiry is None or self._now() < expiry

    def set(self, key, value, seconds=None):
        """Set a key, for some seconds or for ever."""
        expiry = None if seconds is None else self._now() + seconds
        self.log.append(records.set_line(key, value, expiry))
        self._values[key] = (value, expiry)

    def get(self, key, otherwise=None):
        """The value of a key."""
        return self._values[key][0] if self._is_there(key) else otherwise

    def delete(self, key):
        """Delete a key; True if it was there."""
        was_there = self._is_there(key)
        if key in self._values:
            self.log.append(records.del_line(key))
            del self._values[key]
        return was_there

    def scan(self, prefix=""):
        """The keys with a prefix, sorted."""
        return sorted(key for key in self._values if key.startswith(prefix) and self._is_there(key))

    def compact(self):
        """Rewrite the log with one line for each key that is there; the others are forgotten."""
        kept = {key: self._values[key] for key in self.scan()}
        self.log.replace(records.set_line(key, value, expiry) for key, (value, expiry) in kept.items())
        self._values = kept
