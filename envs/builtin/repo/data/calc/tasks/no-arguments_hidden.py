import unittest

from calc import CalcError, evaluate


class TestArguments(unittest.TestCase):
    def check(self, text, column):
        with self.assertRaises(CalcError) as caught:
            evaluate(text)
        self.assertEqual(caught.exception.column, column)

    def test_none(self):
        self.check("max()", 1)
        self.check("1 + min()", 5)

    def test_too_many(self):
        self.check("abs(1, 2)", 1)

    def test_out_of_domain(self):
        self.check("sqrt(-1)", 1)

    def test_right_numbers(self):
        self.assertEqual(evaluate("min(3)"), 3)
