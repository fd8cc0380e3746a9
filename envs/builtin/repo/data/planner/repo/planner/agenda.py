"""Appointments by date."""

from planner import repeats, spans


def clock(minutes):
    """Minutes since midnight as hh:mm."""
    return "%02d:%02d" % divmod(minutes, 60)


class Agenda:
    """Appointments: a title and a span on a date."""

    def __init__(self):
        self._days = {}

    def add(self, date, start, end, title):
        """Note an appointment.

        Raises:
            ValueError: it does not end after it starts, or leaves the day.
        """
        if not 0 <= start < end <= 24 * 60:
            raise ValueError("an appointment lies within a day and ends after it starts")
        self._days.setdefault(date, []).append((start, end, title))

    def repeat(self, first, rule, count, start, end, title):
        """Note an appointment on several dates."""
        for date in repeats.occurrences(first, rule, count):
            self.add(date, start, end, title)

    def on(self, date):
        """The appointments of a date in order of start, then title."""
        return sorted(self._days.get(date, []), key=lambda one: (one[0], one[2]))

    def conflicts(self, date):
        """Pairs of titles whose spans overlap."""
        found = self.on(date)
        return [
            (a[2], b[2])
            for number, a in enumerate(found)
            for b in found[number + 1 :]
            if spans.overlap(a[:2], b[:2])
        ]

    def free(self, date, start, end):
        """The gaps of a date within [start, end)."""
        return spans.free([one[:2] for one in self.on(date)], start, end)

    def show(self, date):
        """One line for each appointment."""
        return "\n".join("%s-%s %s" % (clock(a), clock(b), title) for a, b, title in self.on(date))
