import unittest

from ledger import importer, money, report

TEXT = """2024-01-01,start,bank,100.00
2024-01-01,start,equity,-100.00
2024-01-05,lunch,food,12.50
2024-01-05,lunch,bank,-12.50
"""


class TestLedger(unittest.TestCase):
    def test_amounts(self):
        self.assertEqual(money.parse("12.30"), 1230)
        self.assertEqual(money.show(1230), "12.30")

    def test_balances(self):
        journal = importer.read_csv(TEXT)
        self.assertEqual(report.balances(journal), {"bank": 8750, "equity": -10000, "food": 1250})

    def test_split(self):
        self.assertEqual(report.split(100, [1, 1, 2]), [25, 25, 50])


if __name__ == "__main__":
    unittest.main()
