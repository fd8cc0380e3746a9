import unittest

from calc import evaluate


class TestSign(unittest.TestCase):
    def test_sign_of_a_power(self):
        self.assertEqual(evaluate("-2 ^ 2"), -4)
        self.assertEqual(evaluate("1 - -3 ^ 2"), 10)

    def test_brackets(self):
        self.assertEqual(evaluate("(-2) ^ 2"), 4)

    def test_two_signs(self):
        self.assertEqual(evaluate("--3"), 3)
        self.assertEqual(evaluate("2 * -3"), -6)
