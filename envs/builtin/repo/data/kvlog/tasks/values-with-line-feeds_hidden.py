import unittest

from kvlog import Store
from kvlog.codec import decode, encode
from kvlog.files import TextLog

TEXTS = ["", " ", "%", "%20", "a b", "line\nfeed", "\r\n", "\t", "100%", "%%", "\u00fc", "set a 1 -\ndel a"]


class TestTexts(unittest.TestCase):
    def test_words(self):
        for text in TEXTS:
            word = encode(text)
            self.assertEqual(decode(word), text)
            self.assertEqual([word], word.split())

    def test_values_come_back(self):
        store = Store(TextLog())
        for number, text in enumerate(TEXTS):
            store.set("k%d" % number, text)
        again = Store(TextLog(store.log.text))
        self.assertEqual([again.get("k%d" % number) for number in range(len(TEXTS))], TEXTS)

    def test_keys_come_back(self):
        store = Store(TextLog())
        for text in TEXTS:
            store.set(text, "x")
        self.assertEqual(Store(TextLog(store.log.text)).scan(), sorted(TEXTS))
