import unittest

from planner.agenda import Agenda


class TestConflicts(unittest.TestCase):
    def conflicts(self, *spans):
        agenda = Agenda()
        for number, (start, end) in enumerate(spans):
            agenda.add("2024-01-01", start, end, "t%d" % number)
        return agenda.conflicts("2024-01-01")

    def test_neighbours(self):
        self.assertEqual(self.conflicts((540, 600), (600, 660)), [])

    def test_overlap(self):
        self.assertEqual(self.conflicts((540, 601), (600, 660)), [("t0", "t1")])

    def test_within(self):
        self.assertEqual(self.conflicts((0, 1440), (600, 601), (700, 800)), [("t0", "t1"), ("t0", "t2")])

    def test_the_same_time(self):
        self.assertEqual(self.conflicts((60, 120), (60, 120)), [("t0", "t1")])
