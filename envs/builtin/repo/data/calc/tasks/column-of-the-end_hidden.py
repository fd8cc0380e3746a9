import unittest

from calc import CalcError, evaluate


class TestColumn(unittest.TestCase):
    def column(self, text):
        with self.assertRaises(CalcError) as caught:
            evaluate(text)
        return caught.exception.column

    def test_end(self):
        self.assertEqual(self.column("1 +"), 4)
        self.assertEqual(self.column("(1"), 3)
        self.assertEqual(self.column(""), 1)

    def test_inside(self):
        self.assertEqual(self.column("1 + * 2"), 5)
        self.assertEqual(self.column("x + 1"), 1)
