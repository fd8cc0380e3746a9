import unittest

from planner import repeats, spans
from planner.agenda import Agenda


class TestPlanner(unittest.TestCase):
    def test_merge(self):
        self.assertEqual(spans.merge([(5, 9), (1, 6)]), [(1, 9)])

    def test_weekly(self):
        self.assertEqual(repeats.occurrences("2024-02-26", "weekly", 2), ["2024-02-26", "2024-03-04"])

    def test_show(self):
        agenda = Agenda()
        agenda.add("2024-01-01", 540, 630, "Talk")
        self.assertEqual(agenda.show("2024-01-01"), "09:00-10:30 Talk")


if __name__ == "__main__":
    unittest.main()
