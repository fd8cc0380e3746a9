import unittest

from calc import CalcError, evaluate


class TestCalc(unittest.TestCase):
    def test_sums_and_products(self):
        self.assertEqual(evaluate("2 + 3 * 4"), 14)
        self.assertEqual(evaluate("(2 + 3) * 4"), 20)

    def test_names(self):
        self.assertEqual(evaluate("x * x", {"x": 7}), 49)

    def test_functions(self):
        self.assertEqual(evaluate("max(1, 5, 3)"), 5)

    def test_an_error_has_a_column(self):
        with self.assertRaises(CalcError) as caught:
            evaluate("1 + $")
        self.assertEqual(caught.exception.column, 5)


if __name__ == "__main__":
    unittest.main()
