"""Rules of repetition."""

from planner import dates


def occurrences(first, rule, count):
    """The first `count` dates of a rule, from `first` on."""
    if rule == "daily":
        return [dates.add_days(first, n) for n in range(count)]
    if rule == "weekly":
        return [dates.add_days(first, 7 * n) for n in range(count)]
    if rule == "monthly":
        return [dates.add_months(first, n) for n in range(count)]
    if rule == "weekdays":
        found = []
        date = first
        while len(found) < count:
            if dates.weekday(date) < 5:
                found.append(date)
            date = dates.add_days(date, 1)
        return found
    raise ValueError("unknown rule %r" % rule)
