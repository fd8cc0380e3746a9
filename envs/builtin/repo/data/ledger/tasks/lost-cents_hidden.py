import unittest

from ledger.report import split


class TestSplit(unittest.TestCase):
    def test_thirds(self):
        self.assertEqual(split(100, [1, 1, 1]), [34, 33, 33])
        self.assertEqual(split(-100, [1, 1, 1]), [-34, -33, -33])

    def test_nothing_is_lost(self):
        for cents in (-101, -1, 0, 1, 7, 99, 1000):
            for shares in ([1], [1, 2], [3, 3, 3], [0, 1, 5], [7, 1, 1, 1]):
                self.assertEqual(sum(split(cents, shares)), cents)

    def test_a_share_of_zero(self):
        self.assertEqual(split(5, [0, 1, 1]), [0, 3, 2])

    def test_bad_shares(self):
        for shares in ([0, 0], [-1, 2]):
            with self.assertRaises(ValueError):
                split(10, shares)
