"""Dates as ISO texts."""

import calendar
import datetime


def parse(text):
    """A date object."""
    return datetime.date.fromisoformat(text)


def add_days(text, days):
    """The date so many days later."""
    return (parse(text) + datetime.timedelta(days=days)).isoformat()


def add_months(text, months):
    """The same day so many months later, or the month's last day where it has none of that number."""
    date = parse(text)
    number = date.year * 12 + date.month - 1 + months
    year, month = number // 12, number % 12 + 1
    day = min(date.day, calendar.monthrange(year, month)[1])
    return datetime.date(year, month, day).isoformat()


def weekday(text):
    """0 for Monday … 6 for Sunday."""
    return parse(text).weekday()
