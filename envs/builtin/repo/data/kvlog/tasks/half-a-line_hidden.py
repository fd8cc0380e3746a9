import unittest

from kvlog import Store
from kvlog.files import TextLog


class TestHalf(unittest.TestCase):
    def test_half_a_line_is_ignored_and_overwritten(self):
        for half in ("set b", "set b 2 -", "d"):
            log = TextLog("set a 1 -\n" + half)
            store = Store(log)
            self.assertEqual(store.scan(), ["a"])
            store.set("c", "3")
            again = Store(TextLog(log.text))
            self.assertEqual(again.scan(), ["a", "c"])
            self.assertEqual(again.get("c"), "3")

    def test_only_half_a_line(self):
        store = Store(TextLog("set a"))
        store.set("b", "2")
        self.assertEqual(store.log.text, "set b 2 -\n")

    def test_an_empty_log(self):
        self.assertEqual(Store(TextLog("")).scan(), [])
