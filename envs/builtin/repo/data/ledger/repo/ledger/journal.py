"""Entries and the journal that holds them in order of date."""


class Entry:
    """Something that happened on a day: postings are (account, cents) pairs that sum to zero."""

    def __init__(self, date, text, postings):
        total = sum(cents for _, cents in postings)
        if total != 0:
            raise ValueError("entry %r is off by %d cents" % (text, total))
        if len(postings) < 2:
            raise ValueError("entry %r needs two postings" % text)
        self.date = date
        self.text = text
        self.postings = list(postings)


class Journal:
    """Entries in order of date; entries of one day keep the order in which they were added."""

    def __init__(self):
        self.entries = []

    def add(self, entry):
        """Put an entry in its place."""
        place = len(self.entries)
        while place > 0 and self.entries[place - 1].date > entry.date:
            place -= 1
        self.entries.insert(place, entry)

    def between(self, first=None, last=None):
        """The entries from one date to another, both included; None leaves that side open."""
        return [
            entry
            for entry in self.entries
            if (first is None or entry.date >= first) and (last is None or entry.date <= last)
        ]
