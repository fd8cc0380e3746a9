import unittest

from planner.repeats import occurrences


class TestMonthly(unittest.TestCase):
    def test_the_31st(self):
        self.assertEqual(
            occurrences("2024-01-31", "monthly", 4), ["2024-01-31", "2024-02-29", "2024-03-31", "2024-04-30"]
        )

    def test_over_the_year(self):
        self.assertEqual(occurrences("2023-12-30", "monthly", 3), ["2023-12-30", "2024-01-30", "2024-02-29"])

    def test_none(self):
        self.assertEqual(occurrences("2024-01-31", "monthly", 0), [])
