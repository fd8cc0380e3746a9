import unittest

from planner.dates import add_months


class TestMonths(unittest.TestCase):
    def test_to_december(self):
        self.assertEqual(add_months("2024-11-15", 1), "2024-12-15")
        self.assertEqual(add_months("2024-12-15", 12), "2025-12-15")

    def test_from_december(self):
        self.assertEqual(add_months("2024-12-31", 2), "2025-02-28")

    def test_backwards(self):
        self.assertEqual(add_months("2024-01-31", -1), "2023-12-31")
        self.assertEqual(add_months("2024-03-31", -1), "2024-02-29")

    def test_nothing(self):
        self.assertEqual(add_months("2024-12-01", 0), "2024-12-01")
