import unittest

from kvlog import Store


class TestStore(unittest.TestCase):
    def test_set_and_get(self):
        store = Store()
        store.set("a", "1")
        self.assertEqual(store.get("a"), "1")
        self.assertIsNone(store.get("b"))

    def test_reopen(self):
        store = Store()
        store.set("a", "1")
        store.set("b", "2")
        store.delete("a")
        self.assertEqual(Store(store.log).scan(), ["b"])


if __name__ == "__main__":
    unittest.main()
