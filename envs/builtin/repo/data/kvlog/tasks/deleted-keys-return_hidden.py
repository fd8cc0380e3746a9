import unittest

from kvlog import Store
from kvlog.files import TextLog


class TestCompact(unittest.TestCase):
    def setUp(self):
        self.time = 0.0
        self.store = Store(TextLog(), lambda: self.time)
        for key in "abc":
            self.store.set(key, key * 2)
        self.store.set("d", "short", seconds=5)
        self.store.set("e", "long", seconds=50)

    def reopened(self):
        return Store(TextLog(self.store.log.text), lambda: self.time)

    def test_deleted(self):
        self.store.delete("b")
        self.store.compact()
        self.assertEqual(self.reopened().scan(), ["a", "c", "d", "e"])
        self.assertEqual(self.store.scan(), ["a", "c", "d", "e"])

    def test_expired(self):
        self.time = 10.0
        self.store.compact()
        self.assertEqual(self.store.log.text.count("\n"), 4)
        self.assertEqual(self.reopened().get("e"), "long")
        self.time = 60.0
        self.assertEqual(self.reopened().scan(), ["a", "b", "c"])

    def test_newest_value(self):
        self.store.set("a", "new")
        self.store.compact()
        self.assertEqual(self.reopened().get("a"), "new")
