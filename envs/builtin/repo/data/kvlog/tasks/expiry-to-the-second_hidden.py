import unittest

from kvlog import Store
from kvlog.files import TextLog


class TestExpiry(unittest.TestCase):
    def at(self, time):
        clock = [0.0]
        store = Store(TextLog(), lambda: clock[0])
        store.set("a", "1", seconds=5)
        store.set("b", "2")
        clock[0] = time
        return store

    def test_before(self):
        self.assertEqual(self.at(4.999).get("a"), "1")

    def test_at_the_moment(self):
        store = self.at(5.0)
        self.assertIsNone(store.get("a"))
        self.assertEqual(store.scan(), ["b"])
        self.assertEqual(store.delete("a"), False)

    def test_for_ever(self):
        self.assertEqual(self.at(1e12).get("b"), "2")
