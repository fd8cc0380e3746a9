import unittest

from ledger import money


class TestShow(unittest.TestCase):
    def test_small_negative(self):
        self.assertEqual(money.show(-5), "-0.05")
        self.assertEqual(money.show(-99), "-0.99")

    def test_negative(self):
        self.assertEqual(money.show(-1230), "-12.30")
        self.assertEqual(money.show(-100), "-1.00")

    def test_round_trip(self):
        for cents in (-12345, -100, -1, 0, 7, 99, 100, 54321):
            self.assertEqual(money.parse(money.show(cents)), cents)
