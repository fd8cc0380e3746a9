import unittest

from ledger import report
from ledger.journal import Entry, Journal


def journal():
    book = Journal()
    for date, cents in (("2024-01-31", 3), ("2024-01-01", 1), ("2024-02-01", 9), ("2023-12-31", 5)):
        book.add(Entry(date, "x", [("a", cents), ("b", -cents)]))
    return book


class TestDates(unittest.TestCase):
    def test_both_ends(self):
        self.assertEqual(report.balances(journal(), "2024-01-01", "2024-01-31"), {"a": 4, "b": -4})

    def test_one_day(self):
        self.assertEqual(report.balances(journal(), "2024-01-31", "2024-01-31"), {"a": 3, "b": -3})

    def test_open_sides(self):
        self.assertEqual(report.balances(journal(), None, "2023-12-31"), {"a": 5, "b": -5})
        self.assertEqual(report.balances(journal()), {"a": 18, "b": -18})
