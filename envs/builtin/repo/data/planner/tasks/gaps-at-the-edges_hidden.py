import unittest

from planner.spans import free


class TestFree(unittest.TestCase):
    def test_over_the_start(self):
        self.assertEqual(free([(480, 570)], 540, 720), [(570, 720)])

    def test_over_the_end(self):
        self.assertEqual(free([(700, 800)], 540, 720), [(540, 700)])

    def test_over_both(self):
        self.assertEqual(free([(0, 1440)], 540, 720), [])

    def test_outside(self):
        self.assertEqual(free([(0, 540), (720, 800)], 540, 720), [(540, 720)])

    def test_within(self):
        self.assertEqual(free([(600, 610), (650, 660)], 540, 720), [(540, 600), (610, 650), (660, 720)])
