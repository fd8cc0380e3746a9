import unittest

from ledger.journal import Entry, Journal
from ledger.report import subtotal


class TestSubtotal(unittest.TestCase):
    def setUp(self):
        self.book = Journal()
        for account, cents in (("home", 1), ("home:rent", 10), ("home:rent:flat", 100), ("homework", 1000)):
            self.book.add(Entry("2024-01-01", account, [(account, cents), ("bank", -cents)]))

    def test_nested(self):
        self.assertEqual(subtotal(self.book, "home"), 111)
        self.assertEqual(subtotal(self.book, "home:rent"), 110)

    def test_alone(self):
        self.assertEqual(subtotal(self.book, "homework"), 1000)
        self.assertEqual(subtotal(self.book, "hom"), 0)
