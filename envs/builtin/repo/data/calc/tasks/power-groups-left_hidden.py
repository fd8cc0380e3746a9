import unittest

from calc import evaluate


class TestPower(unittest.TestCase):
    def test_chain(self):
        self.assertEqual(evaluate("2 ^ 3 ^ 2"), 512)
        self.assertEqual(evaluate("2 ^ 2 ^ 2 ^ 2"), 65536)

    def test_negative_exponent(self):
        self.assertEqual(evaluate("2 ^ -1"), 0.5)

    def test_single(self):
        self.assertEqual(evaluate("3 ^ 2 * 2"), 18)
        self.assertEqual(evaluate("-2 ^ 2"), -4)
